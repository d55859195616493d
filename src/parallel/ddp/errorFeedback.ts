/**
 * Error feedback: the residual, which rounding removed from this rank's part of an average, is
 * added to what the rank sends next, so that over many steps nothing is lost. Values must be parts
 * of averages, not of sums: the residual of a sum over 256 samples would count 128 times in an
 * average over 2. Seide et al. (2014), Karimireddy et al. (2019), see `collectives/codecs.ts`.
 *
 * Each rank keeps the residual of its own encoding. Residuals are not part of a replica's state:
 * ranks with different residuals still receive the same sums. A failed step leaves the committed
 * residual unchanged for the next attempt.
 */
import type { Range } from '../../util/range.ts';

export class ErrorFeedback {
  /** Residual of the last committed step. */
  #committed: Float32Array<ArrayBuffer>;
  /** Residual of the current step. */
  #current: Float32Array<ArrayBuffer>;

  /** @param size elements sent in a step. */
  constructor(size: number) {
    this.#committed = new Float32Array(size);
    this.#current = new Float32Array(size);
  }

  /**
   * Adds the committed residual of the elements from `start` on to `values`.
   *
   * @returns the array that the codec writes their next residual to.
   */
  apply(values: Float32Array, start = 0): Float32Array {
    for (let i = 0; i < values.length; i++) values[i]! += this.#committed[start + i]!;
    return this.#current.subarray(start, start + values.length);
  }

  /** Commits the residual of the current step; elements of `unsent` keep the previous one. */
  commit(unsent: readonly Range[] = []): void {
    for (const { start, end } of unsent) this.#current.set(this.#committed.subarray(start, end), start);
    [this.#committed, this.#current] = [this.#current, this.#committed];
  }

  /** Zeroes the residual: other ranks have sent it, or it belongs to another state. */
  reset(): void {
    this.#committed.fill(0);
  }
}
