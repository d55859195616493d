/**
 * Averages the outer gradients of ranks, which have trained alone. A rank's outer gradient is the
 * negative change of its parameters since the last exchange.
 */
import type { CollectiveCodecName } from '../../spec/codecs.ts';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { ElementRange } from '../../util/range.ts';
import { ErrorFeedback } from '../ddp/errorFeedback.ts';

export interface OuterStepMean {
  /**
   * For all parameters: the part of this rank's outer gradients that the latest mean does not
   * contain. The rank keeps this part in its own parameters. `null`: the mean contains everything.
   */
  readonly unsent: Float32Array | null;
  /**
   * Replaces `values` by the mean of all ranks' values, or by an approximation of it, with the same
   * bits on every rank. Every rank must call it.
   *
   * @param start index of the first value in the flat parameters.
   * @param weight this rank's share of the mean; the shares of all ranks add up to 1.
   */
  average(group: ProcessGroup, values: Float32Array, start: number, weight: number): Promise<void>;
  /** Called when the mean of `range` is applied. */
  commit(range: ElementRange): void;
  /** Called when another rank's state is loaded: residuals belong to the replaced state. */
  reset(): void;
}

/** Sends nothing. The mean is zero, so all ranks return to the shared parameters. */
export const ZERO_OUTER_STEP_MEAN: OuterStepMean = {
  unsent: null,
  average: (_group, values) => {
    values.fill(0);
    return Promise.resolve();
  },
  commit: () => {},
  reset: () => {},
};

/** Averages all values with an all-reduce. */
export class DenseOuterMean implements OuterStepMean {
  readonly unsent = null;
  readonly #size: number;
  readonly #codec: CollectiveCodecName;
  readonly #feedback: ErrorFeedback | null;

  constructor(size: number, { codec, errorFeedback }: { codec: CollectiveCodecName; errorFeedback: boolean }) {
    this.#size = size;
    this.#codec = codec;
    this.#feedback = codec !== 'fp32' && errorFeedback ? new ErrorFeedback(size) : null;
  }

  async average(group: ProcessGroup, values: Float32Array, start: number, weight: number): Promise<void> {
    for (let i = 0; i < values.length; i++) values[i]! *= weight;
    const residual = this.#feedback?.apply(values, start) ?? null;
    await group.allReduce(values, { codec: this.#codec, residual });
  }

  commit({ start, end }: ElementRange): void {
    this.#feedback?.commit([
      { start: 0, end: start },
      { start: end, end: this.#size },
    ]);
  }

  reset(): void {
    this.#feedback?.reset();
  }
}
