/** Local SGD: averages the parameters once per period, instead of the gradients in every step. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { checkWholeAtLeast } from '../groups/checks.ts';

export interface PeriodicModelAveragerOptions {
  /** Number of steps between two averages. */
  period: number;
  /**
   * Number of steps before the first average. (torch recommends averaging the gradients in these
   * steps.) Default 0.
   */
  warmupSteps?: number;
}

/**
 * Averages parameters over the ranks once per period, as in Lin et al., "Don't Use Large
 * Mini-Batches, Use Local SGD" (ICLR 2020).
 *
 * Source: torch.distributed.algorithms.model_averaging.averagers
 * (https://github.com/pytorch/pytorch/blob/main/torch/distributed/algorithms/model_averaging/averagers.py)
 *
 * @example
 * ```ts
 * const ddp = await DistributedDataParallel.create(model, group);
 * const averager = new PeriodicModelAverager({ period: 4 });
 * // After each step, with a hook that does not communicate:
 * if (await averager.averageParameters(ddp.parameters, group)) ddp.writeParameters();
 * ```
 */
export class PeriodicModelAverager {
  readonly period: number;
  readonly warmupSteps: number;
  /**
   * Number of steps so far. It must be equal on all ranks. Set it on a joining rank to the value of
   * another rank.
   */
  step = 0;

  /** @throws UsageError if an option is not a whole number in its range. */
  constructor({ period, warmupSteps = 0 }: PeriodicModelAveragerOptions) {
    checkWholeAtLeast('period', period, 1);
    checkWholeAtLeast('warmupSteps', warmupSteps, 0);
    this.period = period;
    this.warmupSteps = warmupSteps;
  }

  /**
   * Call it on every rank after each optimizer step. At the steps warmupSteps, warmupSteps +
   * period, ... (counted from 0) `params` is replaced by its mean over the ranks, with the same
   * bits on every rank. For a DistributedDataParallel whose hook does not communicate: `if (await
   * averager.averageParameters(ddp.parameters, group)) ddp.writeParameters()`.
   *
   * @returns whether it averaged.
   * @throws (rejects) errors of {@link ProcessGroup.allReduce}; `params` and {@link step} are
   *   unchanged then.
   */
  async averageParameters(params: Float32Array, group: ProcessGroup): Promise<boolean> {
    const isDue = this.step >= this.warmupSteps && (this.step - this.warmupSteps) % this.period === 0;
    if (isDue) {
      // A copy is averaged, because a failed all-reduce leaves partial sums, and the parameters
      // exist nowhere else.
      const sum = params.slice();
      await group.allReduce(sum);
      for (let i = 0; i < sum.length; i++) params[i] = sum[i]! / group.worldSize;
    }
    this.step += 1;
    return isDue;
  }
}
