/** The help: the method in four steps, and a list of terms. */
import { signal } from '@preact/signals';
import { Dialog } from '../components/Dialog.tsx';
import { uiMessages } from '../locales/index.ts';
import type { GlossaryTermName } from '../components/GlossaryTerm.tsx';

export const isHelpOpen = signal(false);

const WORDS: GlossaryTermName[] = [
  'rank',
  'world size',
  'generation',
  'epoch',
  'gradient',
  'all-reduce',
  'reduce-scatter',
  'all-gather',
  'communication',
  'computation',
  'overlapped',
  'straggler',
  'stage',
  'micro-batch',
  'activations',
  'bubble',
  'state hash',
];

export function HowItWorks() {
  const { shell, terms } = uiMessages.value;
  return (
    <Dialog open={isHelpOpen} title={shell.howItWorks}>
      <ol class="thoughts">
        {shell.thoughts.map((thought) => (
          <li key={thought}>{thought}</li>
        ))}
      </ol>
      <p class="dim">{shell.straight}</p>
      <dl class="words">
        {WORDS.map((word) => (
          <div key={word}>
            <dt>{terms[word].word}</dt>
            <dd>{terms[word].means}</dd>
          </div>
        ))}
      </dl>
      <p class="dim">
        {shell.keys((name) => (
          <kbd>{name}</kbd>
        ))}
      </p>
    </Dialog>
  );
}
