/**
 * A learning rate range test: a run that only looks for a learning rate. The model is unchanged at
 * its end.
 */
import { findLearningRate, hasLossExploded } from '../../../optim/rangeTest.ts';
import type { RunLimits } from '../../../parallel/recovery/progress.ts';
import { DdpStrategy } from '../../../parallel/strategies/index.ts';
import type { RunResult } from '../../../protocol/runResult.ts';
import type { TrainingPlan } from '../../../spec/plan.ts';
import type { RunState } from '../../storage/runState.ts';
import type { RunStrategy } from '../runStrategy.ts';

export class RangeTest {
  readonly #maxSteps: number;
  readonly #strategy: DdpStrategy;
  /** The state before the first step; `null` on ranks that joined later. */
  #untrained: RunState['replica'] | null = null;

  private constructor(maxSteps: number, strategy: DdpStrategy) {
    this.#maxSteps = maxSteps;
    this.#strategy = strategy;
  }

  /** Creates the range test of a plan. Returns `null` if the plan has none. */
  static of({ measure, maxSteps }: TrainingPlan, strategy: RunStrategy): RangeTest | null {
    if (measure !== 'learning-rate' || !(strategy instanceof DdpStrategy)) return null;
    return new RangeTest(maxSteps!, strategy);
  }

  /**
   * Returns the limits of the run. Epochs are not limited, because the test needs many epochs of a
   * small data set. `patience` is off, because no held-out samples are evaluated.
   */
  boundsOf(plan: TrainingPlan): RunLimits {
    return { ...plan, epochs: Infinity, patience: null };
  }

  /**
   * Returns whether the learning rate has become too high. All ranks get the same answer, because
   * they know the same losses.
   */
  hasExploded(losses: readonly number[]): boolean {
    return hasLossExploded(losses, this.#maxSteps);
  }

  /** Keeps the model as it is before the first step. */
  async keep(): Promise<void> {
    this.#untrained = await this.#strategy.snapshot();
  }

  /** Restores the model as it was before the first step. Every rank must call it. */
  async restore(): Promise<void> {
    await this.#strategy.restore(this.#untrained);
  }

  resultOf(losses: readonly number[]): RunResult['rateTest'] {
    return findLearningRate(losses.filter(Number.isFinite), this.#maxSteps);
  }
}
