/** Local SGD: averages parameters once a period, not gradients at every step. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { checkCount } from '../checks.ts';

export interface PeriodicModelAveragerOptions {
  /** Steps between two averages. */
  period: number;
  /** Steps before the first average. (torch suggests to average gradients in these.) Default 0. */
  warmupSteps?: number;
}

/**
 * Averages parameters over the ranks once a period, after Lin et al., "Don't Use Large
 * Mini-Batches, Use Local SGD" (ICLR 2020).
 *
 * Source: torch.distributed.algorithms.model_averaging.averagers
 * (https://github.com/pytorch/pytorch/blob/main/torch/distributed/algorithms/model_averaging/averagers.py)
 */
export class PeriodicModelAverager {
  readonly period: number;
  readonly warmupSteps: number;
  /** Steps so far. It must be equal on all ranks; a joining rank receives it from another one. */
  step = 0;

  /** @throws UsageError if a number is not a count. */
  constructor({ period, warmupSteps = 0 }: PeriodicModelAveragerOptions) {
    checkCount('period', period, 1);
    checkCount('warmupSteps', warmupSteps, 0);
    this.period = period;
    this.warmupSteps = warmupSteps;
  }

  /**
   * Call it on every rank after each optimizer step. At the steps warmupSteps, warmupSteps +
   * period, ... (counted from 0) `params` becomes its mean over the ranks, the same bits on all of
   * them. For a DistributedDataParallel whose hook does not communicate: `if (await
   * averager.averageParameters(ddp.parameters, group)) ddp.writeParameters()`.
   *
   * @returns whether it averaged.
   * @throws (rejects) errors of {@link ProcessGroup.allReduce}; `params` and {@link step} are
   *   unchanged then.
   */
  async averageParameters(params: Float32Array, group: ProcessGroup): Promise<boolean> {
    const isDue = this.step >= this.warmupSteps && (this.step - this.warmupSteps) % this.period === 0;
    if (isDue) {
      // A copy, because a failed all-reduce leaves partial sums, and these parameters exist nowhere
      // else.
      const sum = params.slice();
      await group.allReduce(sum);
      for (let i = 0; i < sum.length; i++) params[i] = sum[i]! / group.worldSize;
    }
    this.step += 1;
    return isDue;
  }
}
