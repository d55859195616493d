/**
 * Agreement is the protocol by which a rank learns that all others have called the same op. A CALL
 * frame states that its sender, and a number of ranks behind its sender, have called the op.
 * Usually CALL frames travel round the ring in both directions. For the algorithms `tree` and
 * `doubling`, CALL frames also go to distant ranks and need only log2(n) steps. Barriers,
 * all-reduces of non-empty tensors, and all-gathers of non-empty parts need no CALL frames, because
 * their result depends on data of all ranks.
 */
import { AlgorithmCode, OpCode } from '../../protocol/frame.ts';
import type { CollectiveOpDescriptor } from './descriptor.ts';
import { modulo } from '../plans/ringPlan.ts';

/** One rank's side of the agreement on one op. Ranks are numbered within the group. */
export interface CallAgreement {
  /** Receives a CALL frame whose op matches this rank's call. */
  receive(step: number, from: number): void;
  /** Removes and returns the CALL frames that this rank can send now. */
  takeCalls(): { to: number; step: number }[];
  /** Whether all ranks are known to have called the op. */
  readonly isReached: boolean;
}

/**
 * Creates the agreement of `rank`, which has called an op of `n` ranks.
 *
 * @param needsEveryRank whether every rank's result contains data of all ranks. Then a rank that
 *   has the result knows that all ranks have called the op. By default, this is so for reductions.
 */
export function createCallAgreement(
  { op, count, algorithm }: CollectiveOpDescriptor,
  rank: number,
  n: number,
  needsEveryRank = op === OpCode.ALL_REDUCE || op === OpCode.BARRIER,
): CallAgreement {
  if (needsEveryRank && count > 0) return SELF_EVIDENT;
  const takesLogSteps = algorithm === AlgorithmCode.TREE || algorithm === AlgorithmCode.DOUBLING;
  return takesLogSteps ? new LogStepAgreement(rank, n) : new RingAgreement(rank, n);
}

const SELF_EVIDENT: CallAgreement = { receive: () => {}, takeCalls: () => [], isReached: true };

/**
 * Agreement on the ring. A CALL frame with step k tells a neighbour that the sender and the k-1
 * ranks behind the sender (as seen from the neighbour) have called the op.
 */
class RingAgreement implements CallAgreement {
  readonly #left: Side;
  readonly #right: Side;

  constructor(rank: number, n: number) {
    // The two sides together contain all other ranks. In a world of two, the other rank is on the
    // left side.
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
  /** Number of ranks on this side. */
  readonly ranks: number;
  /** Number of ranks on this side that are known to have called the op. */
  called: number;
  /**
   * Number of ranks that this rank's CALL frames have announced to the neighbour on the other side:
   * first this rank, then the nearest ranks on this side.
   */
  announced: number;
}

/**
 * Returns CALL frames for the neighbour on side `other`. They announce this rank and the ranks on
 * `side` that have called the op, but no more ranks than that neighbour needs.
 */
function callsFor(side: Side, other: Side): { to: number; step: number }[] {
  const calls = [];
  while (side.announced < Math.min(side.ranks, side.called + 1)) {
    calls.push({ to: other.neighbour, step: ++side.announced });
  }
  return calls;
}

/**
 * Agreement in ceil(log2 n) steps. A CALL frame with step k goes to the rank 2^k places to the
 * right and tells that rank that the sender and the 2^k-1 ranks to the sender's left have called
 * the op. This is a dissemination barrier: Hensgen, Finkel and Manber, "Two Algorithms for Barrier
 * Synchronization" (1988).
 */
class LogStepAgreement implements CallAgreement {
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
    // The frame of step k is sent once the frames of all earlier steps have arrived.
    while (this.#announced < this.#steps && (this.#announced === 0 || this.#received.has(this.#announced - 1))) {
      const step = this.#announced++;
      calls.push({ to: modulo(this.#rank + 2 ** step, this.#n), step });
    }
    return calls;
  }
}
