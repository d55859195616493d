/** The help: the method in four steps, and a list of terms. */
import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { messages } from '../locales/index.ts';
import type { TermName } from '../components/Term.tsx';

export const helpOpen = signal(false);

const WORDS: TermName[] = [
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
  const { shell, terms } = messages.value;
  const dialog = useRef<HTMLDialogElement>(null);
  const open = helpOpen.value;
  useEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);
  const close = (): void => {
    helpOpen.value = false;
  };
  return (
    <dialog
      ref={dialog}
      class="help"
      aria-labelledby="help-title"
      onClose={close}
      onClick={(event) => event.target === dialog.current && close()}
    >
      <div class="help-body">
        <div class="row spread">
          <h2 id="help-title">{shell.howItWorks}</h2>
          <button type="button" class="quiet" onClick={close}>
            {shell.close}
          </button>
        </div>
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
      </div>
    </dialog>
  );
}
