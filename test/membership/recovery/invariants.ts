/** The invariants R1 to R5 of recovery. If one of them is broken, a {@link Violation} is thrown. */
import { isDeepStrictEqual } from 'node:util';
import { bitsOf } from '../bits.ts';
import { Violation } from '../violation.ts';
import { numberOf, type History, type Part, type Sum } from './history.ts';
import type { Tab } from './tab.ts';

/** `replicated`: every tab has all samples. `federated`: every tab has its own samples. */
export type DataKind = 'replicated' | 'federated';

interface InvariantOptions {
  kind: DataKind;
  /** Number of samples in the data set if it is replicated. */
  samples: number;
  /** Number of samples of each tab. */
  sizes: readonly number[];
}

export class Invariants {
  readonly #kind: DataKind;
  readonly #samples: number;
  readonly #sizes: readonly number[];
  /**
   * States by generation and step: the generation that applied the step, and the number of the
   * step.
   */
  readonly #named = new Map<number, History>();

  constructor({ kind, samples, sizes }: InvariantOptions) {
    this.#kind = kind;
    this.#samples = samples;
    this.#sizes = sizes;
  }

  /**
   * R1: after each step the number of learned samples fits the position in the data. In `tabs`, the
   * bits of the tabs that took part in all steps of the epoch are set.
   */
  checkLearned(learned: readonly number[], tabs: number, { isEndOfEpoch, to }: Sum): void {
    if (this.#kind === 'replicated') {
      const due = isEndOfEpoch ? this.#samples : Math.floor(to / 4096) % 4096;
      if (bitsOf(learned[0]!) !== due)
        throw new Violation('R1', `${bitsOf(learned[0]!)} samples are learned instead of ${due}`);
      return;
    }
    if (!isEndOfEpoch) return;
    for (const [slot, size] of this.#sizes.entries()) {
      if (((tabs >> slot) & 1) === 1 && learned[slot] !== (1 << size) - 1) {
        throw new Violation('R1', `tab ${slot} took part in the whole epoch, but not all of its samples are learned`);
      }
    }
  }

  /** R3: only one state exists for a step and the generation that applied it. */
  checkName({ name, progress, history }: Tab): void {
    const { step, appliedIn } = progress;
    if (appliedIn === 0) return;
    const key = appliedIn * 4096 + step;
    const known = this.#named.get(key);
    if (known === undefined) this.#named.set(key, history);
    else if (known !== history) {
      throw new Violation(
        'R3',
        `${name} has a different state after step ${step} of generation ${appliedIn} than the others`,
      );
    }
  }

  /** R2: the gradients that a tab keeps belong to the first samples of its assignment. */
  checkHeld({ name, held, assignment }: Tab): void {
    if (held.some((index, i) => assignment?.indices[i] !== index)) {
      throw new Violation(
        'R2',
        `${name} has gradients of the samples ${held.join()}, but uses them for the samples ${assignment?.indices.join()}`,
      );
    }
  }

  /** R2: all ranks take the same step. */
  checkAlike(parts: readonly Part[]): void {
    const { tab: first, assignment } = parts[0]!;
    for (const { tab, assignment: other } of parts) {
      const { window, passes } = other;
      const isAlike =
        tab.history === first.history &&
        numberOf(window) === numberOf(assignment.window) &&
        numberOf(window.next) === numberOf(assignment.window.next) &&
        window.size === assignment.window.size &&
        isDeepStrictEqual(passes, assignment.passes);
      if (!isAlike)
        throw new Violation('R2', `${tab.name} and ${first.name} are about to take different steps together`);
      const { epoch, offset } = tab.progress.position;
      const isNext = window.epoch === epoch && (this.#kind === 'federated' || window.offset === offset);
      if (!isNext) throw new Violation('R1', `${tab.name} does not take the next step`);
    }
  }

  /**
   * R2: all ranks have the same state. R5: no step of ranks in `trained` is undone. Only their
   * latest step may be replaced, if it is repeated in a later generation.
   */
  checkBegun(tabs: readonly Tab[], trained: ReadonlySet<Tab>): void {
    const { history, progress } = tabs[0]!;
    for (const tab of tabs) {
      if (tab.history !== history || tab.progress.appliedIn !== progress.appliedIn) {
        throw new Violation('R2', `${tab.name} and ${tabs[0]!.name} enter with different states`);
      }
      const { arrived } = tab;
      if (!trained.has(tab) || arrived.sum === null) continue;
      const now = history.until(arrived.steps);
      const isRepeated = now.before === arrived.before && now.sum!.generation > arrived.sum.generation;
      if (now !== arrived && !isRepeated) {
        const { steps, sum } = arrived;
        throw new Violation('R5', `step ${steps} of generation ${sum.generation}, which ${tab.name} has, is undone`);
      }
    }
  }
}
