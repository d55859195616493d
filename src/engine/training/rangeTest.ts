/** A run that looks for a learning rate. It leaves the model unchanged. */
import { findRate, hasExploded } from '../../optim/rangeTest.ts';
import type { RunBounds } from '../../parallel/recovery/progress.ts';
import type { ElasticStrategy } from '../../parallel/strategies/index.ts';
import type { RunResult } from '../../protocol/runResult.ts';
import type { TrainingPlan } from '../../spec/plan.ts';
import type { RunState } from './runState.ts';

export class RangeTest {
  readonly #maxSteps: number;
  /** The state before the first step; `null` on ranks that were not there. */
  #untrained: RunState['replica'] | null = null;

  private constructor(maxSteps: number) {
    this.#maxSteps = maxSteps;
  }

  /** Returns `null` if the plan is not that of a range test. */
  static of({ schedule, maxSteps }: TrainingPlan): RangeTest | null {
    return schedule === 'range-test' ? new RangeTest(maxSteps!) : null;
  }

  /** A small data set takes many epochs, and no held-out samples are tested. */
  boundsOf(plan: TrainingPlan): RunBounds {
    return { ...plan, epochs: Infinity, patience: null };
  }

  /** Whether the rate has become too high. All ranks know the same losses. */
  hasExploded(losses: readonly number[]): boolean {
    return hasExploded(losses, this.#maxSteps);
  }

  async keep(strategy: ElasticStrategy): Promise<void> {
    this.#untrained = await strategy.snapshot();
  }

  /** Every rank must call it. */
  async restore(strategy: ElasticStrategy): Promise<void> {
    await strategy.restore(this.#untrained);
  }

  resultOf(losses: readonly number[]): RunResult['rateTest'] {
    return findRate(losses, this.#maxSteps);
  }
}
