/**
 * The data cursor for partitioned data, where each rank has its own samples. Every step takes
 * samples from each rank in proportion to the rank's data. So all ranks reach the end of the epoch
 * together, and a step's samples represent all ranks. (With DDP's `join` a rank could end early,
 * and the last steps would only have samples of the other ranks.)
 */
import { UsageError } from '../../util/errors.ts';
import { checkWholeAtLeast, checkRank } from '../groups/checks.ts';
import { EpochOrders, type DataCursorPosition } from './cursor.ts';

interface ShardWindow {
  readonly epoch: number;
  /** Number of samples of the epoch, on all ranks together, that are done before this window. */
  readonly offset: number;
  /** Number of samples in this window, on all ranks together; at least one. */
  readonly size: number;
  /** This rank's samples, as indices into its own data; may be empty. */
  readonly indices: Uint32Array;
  readonly next: DataCursorPosition;
}

/**
 * An epoch is divided into as many parts as the largest shard has batches. Part k of n contains,
 * for a shard of m samples, the samples floor(m*k/n) .. floor(m*(k+1)/n)-1 of its permutation, in
 * integer arithmetic. So an epoch has each sample once, and no rank has more than one batch in a
 * step. After each part, all shards have used the same share of their samples, even if ranks join
 * or leave. If a larger shard joins, each part is divided into smaller parts, so all previous
 * boundaries remain. If the largest shard leaves, a step takes as many parts as fit in a batch.
 */
export class ShardCursor {
  /** Number of samples of all ranks together. */
  readonly datasetSize: number;
  readonly #sizes: readonly number[];
  readonly #rank: number;
  /**
   * The permutations of this rank's samples. They depend only on the seed, the epoch and the number
   * of samples. So they stay the same if the rank's number changes.
   */
  readonly #orders: EpochOrders;

  /**
   * @param options.sizes number of samples of each rank, at least one.
   * @throws UsageError if a rank has none.
   */
  constructor({ sizes, rank, seed }: { sizes: readonly number[]; rank: number; seed: number }) {
    checkRank(rank, sizes.length);
    for (const [i, size] of sizes.entries()) checkWholeAtLeast(`The number of rank ${i}'s samples`, size, 1);
    this.datasetSize = sum(sizes);
    this.#sizes = sizes;
    this.#rank = rank;
    this.#orders = new EpochOrders(sizes[rank]!, seed);
  }

  /**
   * Returns the estimated number of steps from `position` to the end of a run of `epochs` epochs.
   * It is exact if no rank joins or leaves.
   */
  stepsLeft({ epoch, offset, parts = 1 }: DataCursorPosition, epochs: number, batchSize: number): number {
    const each = this.partsOf(batchSize);
    return Math.ceil(((parts - offset) * each) / parts) + (epochs - epoch - 1) * each;
  }

  /** Returns the number of steps in a whole epoch if each rank has batches of `batchSize`. */
  partsOf(batchSize: number): number {
    return Math.max(...this.#sizes.map((size) => Math.ceil(size / batchSize)));
  }

  /**
   * @throws UsageError if `position` is outside an epoch or `batchSize` is not a positive whole
   *   number.
   */
  windowAt({ epoch, offset, parts: divided }: DataCursorPosition, batchSize: number): ShardWindow {
    checkWholeAtLeast('batchSize', batchSize, 1);
    checkWholeAtLeast('epoch', epoch, 0);
    checkWholeAtLeast('offset', offset, 0);
    const before = offset === 0 ? this.partsOf(batchSize) : (divided ?? 0);
    if (offset >= before) {
      throw new UsageError(
        `The data cursor is at part ${offset}, but the epoch has only ${before} parts. Pass a smaller offset.`,
      );
    }
    const finer = Math.ceil(Math.max(...this.#sizes) / (before * batchSize));
    const [at, parts] = [offset * finer, before * finer];
    const doneAt = (part: number): number[] => this.#sizes.map((size) => Math.floor((size * part) / parts));
    const start = doneAt(at);
    const countsTo = (part: number): number[] => doneAt(part).map((done, rank) => done - start[rank]!);
    let end = at + 1;
    // A step takes as many parts as fit in each rank's batch, but at least one. A part can be
    // empty, but a step has at least one sample: after empty parts the next part fits, too, and the
    // last part of an epoch has a sample of each rank.
    while (end < parts && Math.max(...countsTo(end + 1)) <= batchSize) end++;
    const counts = countsTo(end);
    const from = start[this.#rank]!;
    return {
      epoch,
      offset: sum(start),
      size: sum(counts),
      indices: this.#orders.of(epoch).slice(from, from + counts[this.#rank]!),
      next: end < parts ? { epoch, offset: end, parts } : { epoch: epoch + 1, offset: 0 },
    };
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
