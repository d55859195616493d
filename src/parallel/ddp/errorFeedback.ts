/**
 * Error feedback. The residual is what rounding removed from this rank's part of an average. It is
 * added to what the rank sends in the next step, so that over many steps nothing is lost. Values
 * must be parts of averages, not of sums: the residual of a sum over 256 samples would weigh 128
 * times too much in a step with 2 samples. Seide et al. (2014), Karimireddy et al. (2019), see
 * `collectives/codecs.ts`.
 *
 * Each rank keeps the residual of its own encoding. Residuals are not part of a replica's state:
 * ranks with different residuals still receive the same sums. A failed step leaves the committed
 * residual unchanged for the next attempt.
 */
import type { ElementRange } from '../../util/range.ts';

export class ErrorFeedback {
  /** Residual of the latest committed step. */
  #committed: Float32Array<ArrayBuffer>;
  /** Residual of the current step. */
  #current: Float32Array<ArrayBuffer>;

  /** @param size number of elements that a step sends. */
  constructor(size: number) {
    this.#committed = new Float32Array(size);
    this.#current = new Float32Array(size);
  }

  /**
   * Adds the committed residual to `values`, whose first element is element `start` of the
   * residual.
   *
   * @returns the array to which the codec writes the next residual of these elements.
   */
  apply(values: Float32Array, start = 0): Float32Array {
    for (let i = 0; i < values.length; i++) values[i]! += this.#committed[start + i]!;
    return this.#current.subarray(start, start + values.length);
  }

  /**
   * Commits the residual of the current step; elements in `unsent` keep their previous residual.
   */
  commit(unsent: readonly ElementRange[] = []): void {
    for (const { start, end } of unsent) this.#current.set(this.#committed.subarray(start, end), start);
    [this.#committed, this.#current] = [this.#current, this.#committed];
  }

  /**
   * Sets the residual to zero, because a received gradient already includes the residual, or
   * because the residual belongs to a different state.
   */
  reset(): void {
    this.#committed.fill(0);
  }
}
