/**
 * How a rank knows that all others have called the same op: by CALL frames, each saying for how
 * many ranks behind its sender it speaks. Round the ring, to both sides; or, where the op's data
 * takes log2(n) steps over links to ranks far away, in as many.
 */
import { Algorithm, OpCode } from '../../protocol/frame.ts';
import type { OpDescriptor } from './descriptor.ts';
import { modulo } from '../plans/ringPlan.ts';

/** One rank's part, for one op. Ranks are those of the group. */
export interface Agreement {
  /** A CALL frame has come, of this op as this rank has called it. */
  hear(step: number, from: number): void;
  /** The CALL frames that this rank can answer for now, and has not sent. */
  told(): { to: number; step: number }[];
  /** Whether all ranks are known to have called the op. */
  readonly isReached: boolean;
}

/** For an op of `n` ranks that `rank` has called. */
export function createAgreement({ op, count, algorithm }: OpDescriptor, rank: number, n: number): Agreement {
  const isReduction = op === OpCode.ALL_REDUCE || op === OpCode.BARRIER;
  // Its data comes through the hands of all, and cannot where one has called something else.
  if (isReduction && count > 0) return SELF_EVIDENT;
  const takesLogSteps = algorithm === Algorithm.TREE || algorithm === Algorithm.DOUBLING;
  return takesLogSteps ? new LogStepAgreement(rank, n) : new RingAgreement(rank, n);
}

const SELF_EVIDENT: Agreement = { hear: () => {}, told: () => [], isReached: true };

/**
 * CALL with step k to a neighbour: I have called the op, and so have k-1 ranks behind me, seen from
 * you.
 */
class RingAgreement implements Agreement {
  readonly #left: Side;
  readonly #right: Side;

  constructor(rank: number, n: number) {
    // Together they are all others; in a world of two the one neighbour is the left one.
    this.#left = { neighbour: modulo(rank - 1, n), ranks: Math.ceil((n - 1) / 2), heard: 0, told: 0 };
    this.#right = { neighbour: modulo(rank + 1, n), ranks: Math.floor((n - 1) / 2), heard: 0, told: 0 };
  }

  get isReached(): boolean {
    return [this.#left, this.#right].every(({ heard, ranks }) => heard === ranks);
  }

  hear(step: number, from: number): void {
    const side = [this.#left, this.#right].find(
      ({ neighbour, heard, ranks }) => from === neighbour && step === heard + 1 && step <= ranks,
    );
    if (side) side.heard = step;
  }

  told(): { to: number; step: number }[] {
    return [...tellOn(this.#left, this.#right), ...tellOn(this.#right, this.#left)];
  }
}

interface Side {
  readonly neighbour: number;
  /** Ranks on this side that this one has to hear of. */
  readonly ranks: number;
  /** Ranks on this side that have called the op. */
  heard: number;
  /** Ranks that the neighbour on the other side was told of: this one, and those on this side. */
  told: number;
}

/**
 * What was heard from one side, told to the other: as much as the neighbour there has to hear of
 * its own side.
 */
function tellOn(side: Side, other: Side): { to: number; step: number }[] {
  const calls = [];
  while (side.told < Math.min(side.ranks, side.heard + 1)) calls.push({ to: other.neighbour, step: ++side.told });
  return calls;
}

/**
 * CALL with step k to the rank 2^k to the right: I have called the op, and so have the 2^k-1 ranks
 * to my left. A dissemination barrier: Hensgen, Finkel and Manber, "Two Algorithms for Barrier
 * Synchronization" (1988).
 */
class LogStepAgreement implements Agreement {
  readonly #rank: number;
  readonly #n: number;
  readonly #rounds: number;
  readonly #heard = new Set<number>();
  #told = 0;

  constructor(rank: number, n: number) {
    this.#rank = rank;
    this.#n = n;
    this.#rounds = Math.ceil(Math.log2(n));
  }

  get isReached(): boolean {
    return this.#heard.size === this.#rounds;
  }

  hear(step: number, from: number): void {
    if (step < this.#rounds && from === modulo(this.#rank - 2 ** step, this.#n)) this.#heard.add(step);
  }

  told(): { to: number; step: number }[] {
    const calls = [];
    // A round speaks for all rounds before it.
    while (this.#told < this.#rounds && (this.#told === 0 || this.#heard.has(this.#told - 1))) {
      const step = this.#told++;
      calls.push({ to: modulo(this.#rank + 2 ** step, this.#n), step });
    }
    return calls;
  }
}
