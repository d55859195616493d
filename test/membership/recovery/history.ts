/**
 * Training states of the recovery schedules. Histories take the place of parameters and gradients.
 */
import type { StepAssignment } from '../../../src/engine/training/data/sampleAssigner.ts';
import type { DataCursorPosition } from '../../../src/parallel/data/cursor.ts';
import { Violation } from '../violation.ts';
import type { Tab } from './tab.ts';

/**
 * Result of an all-reduce for the ranks that completed it. It takes the place of an averaged
 * gradient.
 */
export interface Sum {
  readonly generation: number;
  /** Positions in the data before and after the step, as numbers. */
  readonly from: number;
  readonly to: number;
  readonly isEndOfEpoch: boolean;
  /**
   * Learned samples of each tab, one bit per sample. If every tab has all samples, index 0 contains
   * the samples of all tabs.
   */
  readonly learned: readonly number[];
  /** Tabs that took part, one bit per tab. */
  readonly tabs: number;
}

/** A rank's contribution to an all-reduce. */
export interface Part {
  readonly tab: Tab;
  readonly assignment: StepAssignment;
}

/** State that the histories of a schedule share. */
export interface HistoryOwner {
  /** Number of states. */
  states: number;
  checkLearned(learned: readonly number[], tabs: number, sum: Sum): void;
}

export function numberOf({ epoch, offset, parts = 0 }: DataCursorPosition): number {
  return (epoch * 4096 + offset) * 4096 + parts;
}

/**
 * Takes the place of parameters and optimizer state. Two states are the same object only if the
 * same steps led to them from the same start.
 */
export class History {
  readonly id: number;
  readonly steps: number;
  /** The latest step; `null` at the start. */
  readonly sum: Sum | null;
  readonly before: History | null;
  /** Position in the data after the latest step. */
  readonly at: number;
  /**
   * For the current epoch: the learned samples of each tab, and the tabs that took part in every
   * step.
   */
  readonly learned: readonly number[];
  readonly tabs: number;
  readonly #owner: HistoryOwner;
  readonly #after = new Map<Sum, History>();

  constructor(owner: HistoryOwner, before: History | null = null, sum: Sum | null = null) {
    this.#owner = owner;
    this.id = ++owner.states;
    this.before = before;
    this.steps = before === null ? 0 : before.steps + 1;
    this.sum = sum;
    this.at = sum?.to ?? 0;
    const isNewEpoch = sum === null || sum.isEndOfEpoch;
    this.learned = isNewEpoch ? [] : sum.learned.map((bits, i) => bits | (before?.learned[i] ?? 0));
    this.tabs = isNewEpoch ? -1 : before!.tabs & sum.tabs;
  }

  /** Returns the state after one more step. */
  after(sum: Sum): History {
    const known = this.#after.get(sum);
    if (known) return known;
    if (sum.from !== this.at) throw new Violation('R1', `a step from ${sum.from} was applied at ${this.at}`);
    const learned = sum.learned.map((bits, i) => {
      const before = this.learned[i] ?? 0;
      if ((bits & before) !== 0) throw new Violation('R1', `a sample of tab ${i} was learned twice in an epoch`);
      return bits | before;
    });
    this.#owner.checkLearned(learned, this.tabs & sum.tabs, sum);
    const next = new History(this.#owner, this, sum);
    this.#after.set(sum, next);
    return next;
  }

  /** Returns the state after `steps` steps, or this state if it has fewer steps. */
  until(steps: number): History {
    return this.steps > steps ? this.before!.until(steps) : this;
  }
}
