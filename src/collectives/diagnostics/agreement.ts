/**
 * Agreement: how a rank knows that all others have called the same op. Each CALL frame covers a
 * number of ranks behind its sender. It travels round the ring in both directions; if the op's data
 * takes log2(n) steps over links to distant ranks, so does the agreement.
 */
import { Algorithm, OpCode } from '../../protocol/frame.ts';
import type { OpDescriptor } from './descriptor.ts';
import { modulo } from '../plans/ringPlan.ts';

/** One rank's part, for one op. Ranks are those of the group. */
export interface Agreement {
  /** A CALL frame has arrived for this op as this rank has called it. */
  receive(step: number, from: number): void;
  /** Removes and returns the CALL frames that this rank can send now. */
  takeCalls(): { to: number; step: number }[];
  /** Whether all ranks are known to have called the op. */
  readonly isReached: boolean;
}

/** For an op of `n` ranks that `rank` has called. */
export function createAgreement({ op, count, algorithm }: OpDescriptor, rank: number, n: number): Agreement {
  const isReduction = op === OpCode.ALL_REDUCE || op === OpCode.BARRIER;
  // Its data passes through all ranks, which is impossible if one has called something else.
  if (isReduction && count > 0) return SELF_EVIDENT;
  const takesLogSteps = algorithm === Algorithm.TREE || algorithm === Algorithm.DOUBLING;
  return takesLogSteps ? new LogStepAgreement(rank, n) : new RingAgreement(rank, n);
}

const SELF_EVIDENT: Agreement = { receive: () => {}, takeCalls: () => [], isReached: true };

/** CALL with step k to a neighbour: the sender and k-1 ranks behind it have called the op. */
class RingAgreement implements Agreement {
  readonly #left: Side;
  readonly #right: Side;

  constructor(rank: number, n: number) {
    // Both sides together are all other ranks; in a world of two the neighbour is the left one.
    this.#left = { neighbour: modulo(rank - 1, n), ranks: Math.ceil((n - 1) / 2), called: 0, announced: 0 };
    this.#right = { neighbour: modulo(rank + 1, n), ranks: Math.floor((n - 1) / 2), called: 0, announced: 0 };
  }

  get isReached(): boolean {
    return [this.#left, this.#right].every(({ called, ranks }) => called === ranks);
  }

  receive(step: number, from: number): void {
    const side = [this.#left, this.#right].find(
      ({ neighbour, called, ranks }) => from === neighbour && step === called + 1 && step <= ranks,
    );
    if (side) side.called = step;
  }

  takeCalls(): { to: number; step: number }[] {
    return [...callsFor(this.#left, this.#right), ...callsFor(this.#right, this.#left)];
  }
}

interface Side {
  readonly neighbour: number;
  /** Ranks on this side. */
  readonly ranks: number;
  /** Ranks on this side that are known to have called the op. */
  called: number;
  /** Ranks announced to the neighbour on the other side: this one, and those on this side. */
  announced: number;
}

/** Announces to the other side the calls from one side, as many as that neighbour needs. */
function callsFor(side: Side, other: Side): { to: number; step: number }[] {
  const calls = [];
  while (side.announced < Math.min(side.ranks, side.called + 1)) {
    calls.push({ to: other.neighbour, step: ++side.announced });
  }
  return calls;
}

/**
 * CALL with step k to the rank 2^k to the right: the sender and the 2^k-1 ranks to its left have
 * called the op. A dissemination barrier: Hensgen, Finkel and Manber, "Two Algorithms for Barrier
 * Synchronization" (1988).
 */
class LogStepAgreement implements Agreement {
  readonly #rank: number;
  readonly #n: number;
  readonly #steps: number;
  readonly #received = new Set<number>();
  #announced = 0;

  constructor(rank: number, n: number) {
    this.#rank = rank;
    this.#n = n;
    this.#steps = Math.ceil(Math.log2(n));
  }

  get isReached(): boolean {
    return this.#received.size === this.#steps;
  }

  receive(step: number, from: number): void {
    if (step < this.#steps && from === modulo(this.#rank - 2 ** step, this.#n)) this.#received.add(step);
  }

  takeCalls(): { to: number; step: number }[] {
    const calls = [];
    // A step covers all steps before it.
    while (this.#announced < this.#steps && (this.#announced === 0 || this.#received.has(this.#announced - 1))) {
      const step = this.#announced++;
      calls.push({ to: modulo(this.#rank + 2 ** step, this.#n), step });
    }
    return calls;
  }
}
