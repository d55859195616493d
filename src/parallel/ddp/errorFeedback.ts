/**
 * Error feedback: the residual, which rounding took from this rank's part of an average, is added
 * to what the rank sends next. So over many steps nothing is lost. Values must be parts of
 * averages, not of sums: the residual of a sum over 256 samples would count 128 times in an average
 * over 2. Seide et al. (2014), Karimireddy et al. (2019), see `collectives/codecs.ts`.
 *
 * Each rank keeps what its own encoding lost, and the ranks together what the sum has lost. It is
 * no part of a replica's state: ranks that hold different memories still get the same sums. A step
 * that fails leaves the memory as it was, for another try.
 */
import type { Range } from '../../util/range.ts';

export class ErrorFeedback {
  /** Of the steps that are done. */
  #kept: Float32Array<ArrayBuffer>;
  /** Of the step under way. */
  #lost: Float32Array<ArrayBuffer>;

  /** @param size elements of what is sent in a step. */
  constructor(size: number) {
    this.#kept = new Float32Array(size);
    this.#lost = new Float32Array(size);
  }

  /**
   * Adds what is kept of elements `start` .. to `values`; gives what takes the losses of their next
   * encoding.
   */
  feed(values: Float32Array, start = 0): Float32Array {
    for (let i = 0; i < values.length; i++) values[i]! += this.#kept[start + i]!;
    return this.#lost.subarray(start, start + values.length);
  }

  /**
   * All that was fed has been sent, and what was lost of it is kept from now on; but of `unsent`
   * elements, what was before.
   */
  commit(unsent: readonly Range[] = []): void {
    for (const { start, end } of unsent) this.#lost.set(this.#kept.subarray(start, end), start);
    [this.#kept, this.#lost] = [this.#lost, this.#kept];
  }

  /** Forgets all: others have sent it on, or it belongs to another state. */
  forget(): void {
    this.#kept.fill(0);
  }
}
