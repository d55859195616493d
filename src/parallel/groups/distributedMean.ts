/** Means over all ranks, for metrics: losses, accuracies. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { UsageError } from '../../util/errors.ts';

/**
 * The weighted mean of all values that ranks have added, as in Horovod's averaged metrics and
 * torchmetrics' `MeanMetric` (https://lightning.ai/docs/torchmetrics/stable/aggregation/mean.html).
 * It uses sums and weights, not the ranks' means, so that a rank with few samples has little
 * weight.
 *
 * @example
 * ```ts
 * const accuracy = new DistributedMean();
 * accuracy.add(0.75, 32); // a batch of 32 samples
 * console.log(await accuracy.reduce(group));
 * ```
 */
export class DistributedMean {
  #sum = 0;
  #weight = 0;

  /**
   * Adds `value` with `weight`, such as a batch's mean loss with its number of samples. A value
   * with weight 0 is ignored, even if it is NaN, such as the mean of an empty batch.
   *
   * @throws UsageError if the weight is negative or not finite.
   */
  add(value: number, weight = 1): void {
    if (!(weight >= 0 && weight < Infinity)) {
      throw new UsageError(`The weight of a value is ${weight}; pass a finite number of at least 0.`);
    }
    if (weight === 0) return;
    this.#sum += value * weight;
    this.#weight += weight;
  }

  /**
   * The mean over all ranks, the same on each; NaN if no rank has added a value. Every rank must
   * call it. Values stay in the mean until {@link reset}.
   */
  async reduce(group: ProcessGroup): Promise<number> {
    const totals = Float64Array.of(this.#sum, this.#weight);
    await group.allReduce(totals);
    return totals[0]! / totals[1]!;
  }

  /** Drops the values of this rank. */
  reset(): void {
    this.#sum = 0;
    this.#weight = 0;
  }
}
