/**
 * A learning rate range test: a run that only looks for a learning rate. The model is unchanged at
 * its end.
 */
import { findRate, hasExploded } from '../../optim/rangeTest.ts';
import type { RunBounds } from '../../parallel/recovery/progress.ts';
import type { ElasticStrategy } from '../../parallel/strategies/index.ts';
import type { RunResult } from '../../protocol/runResult.ts';
import type { TrainingPlan } from '../../spec/plan.ts';
import type { RunState } from './runState.ts';

export class RangeTest {
  readonly #maxSteps: number;
  /** The state before the first step; `null` on ranks that joined later. */
  #untrained: RunState['replica'] | null = null;

  private constructor(maxSteps: number) {
    this.#maxSteps = maxSteps;
  }

  /** Creates the range test of a plan. Returns `null` if the plan has another schedule. */
  static of({ schedule, maxSteps }: TrainingPlan): RangeTest | null {
    return schedule === 'range-test' ? new RangeTest(maxSteps!) : null;
  }

  /**
   * Returns the limits of the run. They ignore epochs, because a small data set takes many epochs,
   * and `patience`, because no held-out samples are evaluated.
   */
  boundsOf(plan: TrainingPlan): RunBounds {
    return { ...plan, epochs: Infinity, patience: null };
  }

  /**
   * Returns whether the learning rate has become too high. All ranks get the same answer, because
   * they know the same losses.
   */
  hasExploded(losses: readonly number[]): boolean {
    return hasExploded(losses, this.#maxSteps);
  }

  async keep(strategy: ElasticStrategy): Promise<void> {
    this.#untrained = await strategy.snapshot();
  }

  /** Restores the model as it was before the first step. Every rank must call it. */
  async restore(strategy: ElasticStrategy): Promise<void> {
    await strategy.restore(this.#untrained);
  }

  resultOf(losses: readonly number[]): RunResult['rateTest'] {
    return findRate(losses, this.#maxSteps);
  }
}
