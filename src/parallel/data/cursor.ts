/**
 * The global data cursor. Every step takes the next window of the epoch's permutation and divides
 * it among the ranks. So each sample occurs once per epoch, even if ranks join or leave.
 */
import { UsageError } from '../../util/errors.ts';
import { mixSeed, seededPermutation } from '../../util/rng.ts';
import { checkWholeAtLeast, checkRank } from '../groups/checks.ts';

/** Position in the training data. It is equal on all ranks, and a joining rank receives it. */
export interface DataCursorPosition {
  /** Number of completed epochs. */
  readonly epoch: number;
  /**
   * Number of samples of this epoch that are done, 0 .. datasetSize-1. With partitioned data it is
   * the number of parts that are done (see `ShardCursor`).
   */
  readonly offset: number;
  /** Number of parts into which this epoch is divided. Only partitioned data has parts. */
  readonly parts?: number;
}

/** The samples of one step, of all ranks together. */
export interface SampleWindow {
  readonly epoch: number;
  /** Number of samples of the epoch that are done before this window. */
  readonly offset: number;
  /**
   * Indices of `globalBatch` samples. At the end of an epoch there may be fewer, but at least one.
   */
  readonly indices: Uint32Array;
  /** Start of the next step. */
  readonly next: DataCursorPosition;
}

/**
 * Iterates over seeded permutations of a dataset, one window per step. A window depends on (seed,
 * position, globalBatch) alone and never crosses the end of an epoch. So an epoch has each sample
 * exactly once, whatever the batch sizes are. A retried step with the same position and size has
 * the same samples.
 */
export class GlobalCursor {
  readonly datasetSize: number;
  readonly seed: number;
  readonly #orders: EpochOrders;

  /** @throws UsageError if the dataset is empty. */
  constructor(options: { datasetSize: number; seed: number }) {
    checkWholeAtLeast('datasetSize', options.datasetSize, 1);
    this.datasetSize = options.datasetSize;
    this.seed = options.seed;
    this.#orders = new EpochOrders(options.datasetSize, options.seed);
  }

  /**
   * @throws UsageError if `position` is outside an epoch or `globalBatch` is not a positive whole
   *   number.
   */
  windowAt(position: DataCursorPosition, globalBatch: number): SampleWindow {
    const { epoch, offset } = position;
    checkWholeAtLeast('globalBatch', globalBatch, 1);
    checkWholeAtLeast('epoch', epoch, 0);
    checkWholeAtLeast('offset', offset, 0);
    if (offset >= this.datasetSize) {
      throw new UsageError(
        `The data cursor is at sample ${offset}, but the epoch has only ${this.datasetSize} samples. Pass a smaller offset.`,
      );
    }
    const end = Math.min(offset + globalBatch, this.datasetSize);
    return {
      epoch,
      offset,
      indices: this.#orders.of(epoch).slice(offset, end),
      next: end < this.datasetSize ? { epoch, offset: end } : { epoch: epoch + 1, offset: 0 },
    };
  }

  /**
   * Returns the number of steps from `position` to the end of the given number of epochs.
   *
   * @param globalBatch see {@link windowAt}.
   */
  stepsLeft({ epoch, offset }: DataCursorPosition, epochs: number, globalBatch: number): number {
    const inEpoch = Math.ceil((this.datasetSize - offset) / globalBatch);
    return inEpoch + (epochs - epoch - 1) * Math.ceil(this.datasetSize / globalBatch);
  }
}

/**
 * The seeded permutations of a dataset. Those of two epochs are cached, so that a step does not
 * shuffle the whole dataset, even if it looks ahead into the next epoch.
 */
export class EpochOrders {
  readonly #size: number;
  readonly #seed: number;
  readonly #orders = new Map<number, Uint32Array>();

  constructor(size: number, seed: number) {
    this.#size = size;
    this.#seed = seed;
  }

  of(epoch: number): Uint32Array {
    const order = this.#orders.get(epoch) ?? seededPermutation(this.#size, mixSeed(this.#seed, epoch));
    this.#orders.set(epoch, order);
    for (const other of this.#orders.keys()) if (Math.abs(other - epoch) > 1) this.#orders.delete(other);
    return order;
  }
}

/**
 * Returns a rank's share of a window: every `worldSize`-th index, starting at index `rank`. The
 * shares are disjoint and cover the window. Their lengths differ by at most one. If the window is
 * shorter than the world size, the shares of the highest ranks are empty.
 *
 * @throws UsageError if `rank` is not in 0 .. worldSize-1.
 */
export function equalPartOfWindow(indices: Uint32Array, rank: number, worldSize: number): Uint32Array {
  checkRank(rank, worldSize);
  const out = new Uint32Array(Math.max(0, Math.ceil((indices.length - rank) / worldSize)));
  for (let i = 0; i < out.length; i++) out[i] = indices[rank + i * worldSize]!;
  return out;
}
