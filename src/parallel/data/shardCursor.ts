/**
 * The data cursor for partitioned data, where each rank has its own samples. Every step takes
 * samples from each rank in proportion to its data, so that all ranks reach the end of the epoch
 * together and a step's samples represent all ranks. (DDP's `join` would let a rank end early; the
 * last steps would then only have samples of the others.)
 */
import { UsageError } from '../../util/errors.ts';
import { mixSeed, permutation } from '../../util/rng.ts';
import { checkCount, checkRank } from '../checks.ts';
import type { CursorPosition } from './cursor.ts';

/** The samples of one step. */
interface ShardWindow {
  readonly epoch: number;
  /** Samples of the epoch that are done before it, of all ranks together. */
  readonly offset: number;
  /** Its samples, of all ranks together: at least one. */
  readonly size: number;
  /** This rank's samples, as indices into its own data; may be empty. */
  readonly indices: Uint32Array;
  readonly next: CursorPosition;
}

/**
 * An epoch is divided into as many parts as the largest shard has batches. Part k of n contains,
 * for a shard of m samples, the samples floor(m*k/n) .. floor(m*(k+1)/n)-1 of its permutation, in
 * integer arithmetic. So an epoch has each sample once, and no rank has more than a batch in a
 * step. After each part, all shards have used the same share of their samples, also when ranks come
 * and go. For a larger new shard each part is divided further, which moves no boundary. After the
 * largest shard has left, a step takes as many parts as fit a batch.
 */
export class ShardCursor {
  /** Samples of all ranks together. */
  readonly datasetSize: number;
  readonly #sizes: readonly number[];
  readonly #rank: number;
  readonly #seed: number;
  #order: Uint32Array | null = null;
  #orderEpoch = -1;

  /**
   * @param options.sizes samples of each rank, at least one.
   * @throws UsageError if a rank has none.
   */
  constructor({ sizes, rank, seed }: { sizes: readonly number[]; rank: number; seed: number }) {
    checkRank(rank, sizes.length);
    for (const [i, size] of sizes.entries()) checkCount(`The number of rank ${i}'s samples`, size, 1);
    this.datasetSize = sum(sizes);
    this.#sizes = sizes;
    this.#rank = rank;
    this.#seed = seed;
  }

  /**
   * Estimated steps from `position` to the end of `epochs` epochs; exact if no rank comes or goes.
   */
  stepsLeft({ epoch, offset, parts = 1 }: CursorPosition, epochs: number, batchSize: number): number {
    const each = this.partsOf(batchSize);
    return Math.ceil(((parts - offset) * each) / parts) + (epochs - epoch - 1) * each;
  }

  /** Steps of a whole epoch, with batches of `batchSize` for each rank. */
  partsOf(batchSize: number): number {
    return Math.max(...this.#sizes.map((size) => Math.ceil(size / batchSize)));
  }

  /** @throws UsageError if `position` is outside an epoch or `batchSize` is not a count. */
  windowAt({ epoch, offset, parts: divided }: CursorPosition, batchSize: number): ShardWindow {
    checkCount('batchSize', batchSize, 1);
    checkCount('epoch', epoch, 0);
    checkCount('offset', offset, 0);
    const before = offset === 0 ? this.partsOf(batchSize) : (divided ?? 0);
    if (offset >= before) {
      throw new UsageError(
        `The data cursor is at part ${offset} of an epoch that is divided into ${before}: it must be below.`,
      );
    }
    const finer = Math.ceil(Math.max(...this.#sizes) / (before * batchSize));
    const [at, parts] = [offset * finer, before * finer];
    const doneAt = (part: number): number[] => this.#sizes.map((size) => Math.floor((size * part) / parts));
    const start = doneAt(at);
    const countsTo = (part: number): number[] => doneAt(part).map((done, rank) => done - start[rank]!);
    let end = at + 1;
    // Up to here each rank has a sample left, so a step is never empty.
    while (end < parts && Math.max(...countsTo(end + 1)) <= batchSize) end++;
    const counts = countsTo(end);
    const from = start[this.#rank]!;
    return {
      epoch,
      offset: sum(start),
      size: sum(counts),
      indices: this.#permutationOf(epoch).slice(from, from + counts[this.#rank]!),
      next: end < parts ? { epoch, offset: end, parts } : { epoch: epoch + 1, offset: 0 },
    };
  }

  /**
   * The permutation of this rank's samples. It depends on seed and size alone, so it stays the same
   * if the rank's number changes.
   */
  #permutationOf(epoch: number): Uint32Array {
    if (this.#order === null || this.#orderEpoch !== epoch) {
      this.#order = permutation(this.#sizes[this.#rank]!, mixSeed(this.#seed, epoch));
      this.#orderEpoch = epoch;
    }
    return this.#order;
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
