/** A word with a dotted underline that opens its one-sentence definition. */
import type { ComponentChildren, TargetedToggleEvent } from 'preact';
import { useId, useRef } from 'preact/hooks';

export const DEFINITIONS = {
  rank: 'A rank is one tab of the job, with its number: 0, 1, 2, … Every rank holds a whole copy of the model.',
  'world size': 'The world size is how many ranks train together.',
  'all-reduce':
    'An all-reduce adds up one list of numbers per rank and gives every rank the sum. Here the lists are gradients, cut into chunks that travel round a ring, so that no rank sends more than twice its own list.',
  epoch: 'An epoch is one pass over all training samples, shared out among the ranks.',
  straggler: 'A straggler is the slowest rank of a step; the others wait for its chunks.',
  gradient: 'A gradient says, for every number in the model, which way to change it so that the loss falls.',
  'own loss':
    'Between two exchanges a rank knows only how its own samples do: loss and samples per second are this rank’s alone.',
  talking:
    'Talking is the time spent exchanging gradients. It is hidden while something else, like reading the next gradients off the GPU, goes on beside it.',
  'state hash':
    'A state hash is a fingerprint of all parameters and optimizer state: equal hashes mean that the ranks agree to the last bit.',
} as const;

export type TermName = keyof typeof DEFINITIONS;

export function Term({ of, children }: { of: TermName; children?: ComponentChildren }) {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const place = (event: TargetedToggleEvent<HTMLElement>): void => {
    const float = event.currentTarget;
    if (event.newState !== 'open' || button.current === null) return;
    const at = button.current.getBoundingClientRect();
    const width = float.offsetWidth;
    const left = Math.min(Math.max(16, at.left - 16), innerWidth - width - 16);
    const below = at.bottom + 8 + float.offsetHeight < innerHeight;
    float.style.left = `${left}px`;
    float.style.top = `${below ? at.bottom + 8 : at.top - 8 - float.offsetHeight}px`;
  };
  return (
    <>
      <button ref={button} type="button" class="term" popovertarget={id} aria-describedby={id}>
        {children ?? of}
      </button>
      <span id={id} popover="auto" class="definition" onToggle={place}>
        {DEFINITIONS[of]}
      </span>
    </>
  );
}
