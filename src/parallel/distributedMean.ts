/** Means over all ranks, for metrics: losses, accuracies. */
import type { ProcessGroup } from '../collectives/processGroup.ts';
import { UsageError } from '../util/errors.ts';

/**
 * The weighted mean of what all ranks have added, as Horovod's averaged metrics and torchmetrics'
 * `MeanMetric` (https://lightning.ai/docs/torchmetrics/stable/aggregation/mean.html): of sums and
 * weights, not of the ranks' means, so that a rank with few samples counts for few.
 */
export class DistributedMean {
  #sum = 0;
  #weight = 0;

  /**
   * Counts `value` with `weight`, such as a batch's mean loss with its number of samples. With
   * weight 0 it is left out, whatever it is: the mean of an empty batch is NaN.
   *
   * @throws UsageError where the weight is negative or not finite.
   */
  add(value: number, weight = 1): void {
    if (!(weight >= 0 && weight < Infinity)) {
      throw new UsageError(`The weight of a value is ${weight}; give a finite number from 0 on.`);
    }
    if (weight === 0) return;
    this.#sum += value * weight;
    this.#weight += weight;
  }

  /**
   * The mean over all ranks, the same on each; NaN where none has added anything. Every rank must
   * call it. What was added stays and is in the next one too, until {@link reset}.
   */
  async reduce(group: ProcessGroup): Promise<number> {
    const totals = Float64Array.of(this.#sum, this.#weight);
    await group.allReduce(totals);
    return totals[0]! / totals[1]!;
  }

  /** Forgets what this rank has added. */
  reset(): void {
    this.#sum = 0;
    this.#weight = 0;
  }
}
