/**
 * The global data cursor. Every step takes the next window of the epoch's permutation and divides
 * it among ranks, so that each sample occurs once per epoch while ranks come and go.
 */
import { UsageError } from '../../util/errors.ts';
import { mixSeed, permutation } from '../../util/rng.ts';
import { checkCount, checkRank } from '../checks.ts';

/**
 * Position in the training data: part of the state that all ranks share and a joining rank
 * receives.
 */
export interface CursorPosition {
  /** Completed epochs. */
  readonly epoch: number;
  /**
   * Samples of this epoch that are done, 0 .. datasetSize-1; with partitioned data, parts of it.
   */
  readonly offset: number;
  /** With partitioned data: number of parts that this epoch is divided into. */
  readonly parts?: number;
}

/** The samples of one step, of all ranks together. */
export interface SampleWindow {
  readonly epoch: number;
  /** Samples of the epoch that are done before it. */
  readonly offset: number;
  /** 1 .. globalBatch sample indices; fewer than globalBatch only at the end of an epoch. */
  readonly indices: Uint32Array;
  /** Start of the next step. */
  readonly next: CursorPosition;
}

/**
 * Iterates over seeded permutations of a dataset, one window per step. A window depends on (seed,
 * position, globalBatch) alone and never crosses the end of an epoch. So with any sequence of batch
 * sizes an epoch has each sample exactly once, and a retried step with the same position and size
 * has the same samples.
 *
 * Keeps one epoch's permutation, so that a step does not shuffle the whole dataset.
 */
export class GlobalCursor {
  readonly datasetSize: number;
  readonly seed: number;
  #order: Uint32Array | null = null;
  #orderEpoch = -1;

  /** @throws UsageError if the dataset is empty. */
  constructor(options: { datasetSize: number; seed: number }) {
    checkCount('datasetSize', options.datasetSize, 1);
    this.datasetSize = options.datasetSize;
    this.seed = options.seed;
  }

  /** @throws UsageError if `position` is outside an epoch or `globalBatch` is not a count. */
  windowAt(position: CursorPosition, globalBatch: number): SampleWindow {
    const { epoch, offset } = position;
    checkCount('globalBatch', globalBatch, 1);
    checkCount('epoch', epoch, 0);
    checkCount('offset', offset, 0);
    if (offset >= this.datasetSize) {
      throw new UsageError(
        `The data cursor is at sample ${offset} of an epoch of ${this.datasetSize}: it must be below.`,
      );
    }
    const end = Math.min(offset + globalBatch, this.datasetSize);
    return {
      epoch,
      offset,
      indices: this.#permutationOf(epoch).slice(offset, end),
      next: end < this.datasetSize ? { epoch, offset: end } : { epoch: epoch + 1, offset: 0 },
    };
  }

  #permutationOf(epoch: number): Uint32Array {
    if (this.#order === null || this.#orderEpoch !== epoch) {
      this.#order = permutation(this.datasetSize, mixSeed(this.seed, epoch));
      this.#orderEpoch = epoch;
    }
    return this.#order;
  }
}

/**
 * A rank's share of a window: every `worldSize`-th index from `rank` on. Shares are disjoint, cover
 * the window, and differ in length by at most one; in a short window the last ranks' may be empty.
 *
 * @throws UsageError if `rank` is not in 0 .. worldSize-1.
 */
export function splitWindow(indices: Uint32Array, rank: number, worldSize: number): Uint32Array {
  checkRank(rank, worldSize);
  const out = new Uint32Array(Math.max(0, Math.ceil((indices.length - rank) / worldSize)));
  for (let i = 0; i < out.length; i++) out[i] = indices[rank + i * worldSize]!;
  return out;
}
