/**
 * The data cursor where each rank has samples of its own, which no other rank sees: every step
 * takes from each of them in proportion to what it has, so that all come to the end of the pass
 * together and a step's samples stand for all ranks'. (DDP's `join` lets a rank run dry and the
 * others go on without it, whose samples the last steps would then be all of.)
 */
import { UsageError } from '../../util/errors.ts';
import { mixSeed, permutation } from '../../util/rng.ts';
import { checkCount, checkRank } from '../checks.ts';
import type { CursorPosition } from './cursor.ts';

/** One step. */
interface ShardWindow {
  readonly epoch: number;
  /** Samples of the pass that are done before it, of all ranks together. */
  readonly offset: number;
  /** Its samples, of all ranks together: at least one. */
  readonly size: number;
  /** This rank's, by their places in its own data: maybe none. */
  readonly indices: Uint32Array;
  readonly next: CursorPosition;
}

/**
 * A pass is divided into as many parts as the largest shard has batches. Of part k of n a rank with
 * m samples has those from floor(m*k/n) to floor(m*(k+1)/n) of its shard's permutation, by whole
 * numbers: so a pass holds each sample once, and no rank has more than a batch in a step. What a
 * rank has given by then is the same share of any shard, whoever comes or goes: a shard that came
 * and is larger has each part divided further, which moves no boundary; where the largest has gone,
 * a step takes as many parts as fit a batch.
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
   * @throws UsageError if one has none.
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
   * About as many steps as are left from `position` to the end of so many passes; of passes that
   * nobody comes or goes in exactly.
   */
  stepsLeft({ epoch, offset, parts = 1 }: CursorPosition, epochs: number, batchSize: number): number {
    const each = this.partsOf(batchSize);
    return Math.ceil(((parts - offset) * each) / parts) + (epochs - epoch - 1) * each;
  }

  /** Steps of a pass of which nothing is done, of batches of `batchSize` for each rank. */
  partsOf(batchSize: number): number {
    return Math.max(...this.#sizes.map((size) => Math.ceil(size / batchSize)));
  }

  /** @throws UsageError if `position` lies outside a pass or `batchSize` is not a count. */
  windowAt({ epoch, offset, parts: divided }: CursorPosition, batchSize: number): ShardWindow {
    checkCount('batchSize', batchSize, 1);
    checkCount('epoch', epoch, 0);
    checkCount('offset', offset, 0);
    const before = offset === 0 ? this.partsOf(batchSize) : (divided ?? 0);
    if (offset >= before) {
      throw new UsageError(
        `The data cursor is at part ${offset} of a pass that is divided into ${before}: it must be below.`,
      );
    }
    const finer = Math.ceil(Math.max(...this.#sizes) / (before * batchSize));
    const [at, parts] = [offset * finer, before * finer];
    const doneAt = (part: number): number[] => this.#sizes.map((size) => Math.floor((size * part) / parts));
    const start = doneAt(at);
    const countsTo = (part: number): number[] => doneAt(part).map((done, rank) => done - start[rank]!);
    let end = at + 1;
    // As long as that, each rank has a sample left: a step is never empty.
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
   * Of this rank's samples: by its seed and its size alone, so that it is the same in a world where
   * the rank has another number.
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
  return numbers.reduce((total, one) => total + one, 0);
}
