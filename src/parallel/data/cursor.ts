/**
 * The global data cursor: every step takes the next window of the pass's permutation and deals it
 * out by rank, which keeps "each sample once per pass" while ranks come and go.
 */
import { UsageError } from '../../util/errors.ts';
import { mixSeed, permutation } from '../../util/rng.ts';
import { checkCount, checkRank } from '../checks.ts';

/**
 * How far the training data is used up: part of the state that all ranks share and a joiner
 * receives.
 */
export interface CursorPosition {
  /** Passes over the data that are done (not a membership epoch). */
  readonly epoch: number;
  /**
   * Samples of this pass that are done, 0 .. datasetSize-1; where each rank has its own, parts of
   * it.
   */
  readonly offset: number;
  /** Where each rank has samples of its own: parts that this pass is divided into. */
  readonly parts?: number;
}

/** The samples of one step, of all ranks together. */
export interface SampleWindow {
  readonly epoch: number;
  /** Samples of the pass that are done before it. */
  readonly offset: number;
  /** 1 .. globalBatch sample indices; fewer than globalBatch only at the end of a pass. */
  readonly indices: Uint32Array;
  /** Where the next step starts. */
  readonly next: CursorPosition;
}

/**
 * Walks through seeded permutations of a dataset, one window per step. A window depends on (seed,
 * position, globalBatch) alone and never reaches over the end of a pass, so whatever the sequence
 * of batch sizes, a pass holds each sample exactly once; a retried step asks for the same position
 * and size and gets the same samples.
 *
 * Keeps one pass's permutation, so that a step does not shuffle the whole dataset.
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

  /** @throws UsageError if `position` lies outside a pass or `globalBatch` is not a count. */
  windowAt(position: CursorPosition, globalBatch: number): SampleWindow {
    const { epoch, offset } = position;
    checkCount('globalBatch', globalBatch, 1);
    checkCount('epoch', epoch, 0);
    checkCount('offset', offset, 0);
    if (offset >= this.datasetSize) {
      throw new UsageError(
        `The data cursor is at sample ${offset} of a pass over ${this.datasetSize}: it must be below.`,
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
 * the window, and differ in length by one at most; in a short window the last ranks' may be empty.
 *
 * @throws UsageError if `rank` is not in 0 .. worldSize-1.
 */
export function splitWindow(indices: Uint32Array, rank: number, worldSize: number): Uint32Array {
  checkRank(rank, worldSize);
  const out = new Uint32Array(Math.max(0, Math.ceil((indices.length - rank) / worldSize)));
  for (let i = 0; i < out.length; i++) out[i] = indices[rank + i * worldSize]!;
  return out;
}
