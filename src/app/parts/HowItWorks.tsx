/** The whole idea in four sentences, and the words it needs. */
import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { DEFINITIONS, type TermName } from './Term.tsx';

export const helpOpen = signal(false);

const WORDS: TermName[] = ['rank', 'world size', 'gradient', 'all-reduce', 'epoch', 'straggler', 'state hash'];

export function HowItWorks() {
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
          <h2 id="help-title">How it works</h2>
          <button type="button" class="quiet" onClick={close}>
            Close
          </button>
        </div>
        <ol class="thoughts">
          <li>Every tab holds the same model, and takes its own share of the samples.</li>
          <li>From its share each tab computes a gradient: which way every number of the model should move.</li>
          <li>
            The tabs stand in a ring. Each cuts its gradient into as many chunks as there are tabs and passes chunks to
            the right. In the first round the numbers are added up; in the second the sums are handed out.
          </li>
          <li>
            Now all tabs hold the same average and take the same step. They stay equal to the last bit, as if one tab
            had seen all the samples.
          </li>
        </ol>
        <p class="dim">
          The chunks go straight from browser to browser. The server only introduces the tabs to each other; it never
          sees a gradient.
        </p>
        <dl class="words">
          {WORDS.map((word) => (
            <div key={word}>
              <dt>{word}</dt>
              <dd>{DEFINITIONS[word]}</dd>
            </div>
          ))}
        </dl>
        <p class="dim">
          Keys: <kbd>Space</kbd> plays and pauses, <kbd>←</kbd> <kbd>→</kbd> step, <kbd>?</kbd> opens this,{' '}
          <kbd>Esc</kbd> closes.
        </p>
      </div>
    </dialog>
  );
}
