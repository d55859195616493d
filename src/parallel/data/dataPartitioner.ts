/** `DataPartitioner` of PyTorch's tutorial "Writing Distributed Applications". */
import { UsageError } from '../../util/errors.ts';
import { seededPermutation } from '../../util/rng.ts';
import { checkWholeAtLeast } from '../groups/checks.ts';

/**
 * Relative tolerance of rounding errors. Because of rounding, 0.4 + 0.2 + 0.3 + 0.1 exceeds 1, and
 * 0.29 * 100 is below 29.
 */
const TOLERANCE = 1e-9;

/**
 * Cuts shuffled samples into parts, for example one for each rank. As in the tutorial, the size of
 * a part is its fraction of the samples, rounded down. So equal fractions make equal parts, and the
 * samples that remain are in no part.
 *
 * The order is `permutation(length, seed)` of util/rng, the same on every machine.
 *
 * Source: https://docs.pytorch.org/tutorials/intermediate/dist_tuto.html#distributed-training
 *
 * @example
 * ```ts
 * const partitioner = new DataPartitioner(1000, [0.5, 0.5], 1234); // for two ranks
 * const { indices } = partitioner.use(group.rank);
 * ```
 */
export class DataPartitioner<T = number> {
  readonly #sampleAt: (index: number) => T;
  readonly #parts: readonly Uint32Array[];

  /**
   * @param data the samples, or their number. With a number, the samples of a part are indices.
   * @param fractions size of each part as a fraction of the samples.
   * @param seed seed of the order. It must be the same on all ranks.
   * @throws UsageError if there are no samples or no fractions, a fraction is not above 0, the
   *   fractions exceed 1, or a part would be empty.
   */
  constructor(data: ArrayLike<T> | (number extends T ? number : never), fractions = [0.7, 0.2, 0.1], seed = 1234) {
    const length = typeof data === 'number' ? data : data.length;
    checkWholeAtLeast('The number of samples', length, 1);
    checkFractions(fractions);
    // The type of `data` allows a number only if T includes numbers, so an index is a T.
    this.#sampleAt = typeof data === 'number' ? (index) => index as T : (index) => data[index]!;
    const order = seededPermutation(length, seed);
    let start = 0;
    this.#parts = fractions.map((fraction, i) => {
      const size = Math.floor(fraction * length * (1 + TOLERANCE));
      if (size === 0) {
        throw new UsageError(
          `Part ${i} would have no samples, because it is ${fraction} of ${length} samples. Pass a larger fraction or more samples.`,
        );
      }
      const part = order.subarray(start, start + size);
      start += size;
      return part;
    });
  }

  /**
   * Returns a part.
   *
   * @throws UsageError if there is no part with this number.
   */
  use(part: number): Partition<T> {
    const indices = this.#parts[part];
    if (!indices) throw new UsageError(`There is no part ${part}. Pass one of 0 .. ${this.#parts.length - 1}.`);
    return new Partition(indices, this.#sampleAt);
  }
}

/** One part of the samples. */
export class Partition<T = number> implements Iterable<T> {
  /** Indices of the samples in the whole data. */
  readonly indices: Uint32Array;
  readonly #sampleAt: (index: number) => T;

  constructor(indices: Uint32Array, sampleAt: (index: number) => T) {
    this.indices = indices;
    this.#sampleAt = sampleAt;
  }

  get length(): number {
    return this.indices.length;
  }

  /** @throws UsageError unless `i` is in 0 .. length-1. */
  at(i: number): T {
    const index = this.indices[i];
    if (index === undefined) {
      throw new UsageError(`This part has no sample ${i}. Pass one of 0 .. ${this.length - 1}.`);
    }
    return this.#sampleAt(index);
  }

  *[Symbol.iterator](): Iterator<T> {
    for (const index of this.indices) yield this.#sampleAt(index);
  }
}

function checkFractions(fractions: readonly number[]): void {
  if (fractions.length === 0) throw new UsageError('No fractions were passed. Pass one for each part.');
  const wrong = fractions.findIndex((fraction) => !(fraction > 0));
  if (wrong >= 0) {
    throw new UsageError(`The fraction of part ${wrong} is ${fractions[wrong]}. Pass a number above 0.`);
  }
  const sum = fractions.reduce((total, fraction) => total + fraction, 0);
  if (sum > 1 + TOLERANCE) {
    throw new UsageError(`The fractions add up to ${sum}. Pass fractions that add up to 1 or less.`);
  }
}
