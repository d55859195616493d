/** The learning rate of each step, by the plan's schedule over the steps or the time of the run. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { rateAt } from '../../optim/schedule.ts';
import { shareOfTime } from '../../parallel/recovery/progress.ts';
import type { ScheduledOptimizer } from '../../parallel/strategies/scheduledOptimizer.ts';
import type { TrainingPlan } from '../../spec/plan.ts';
import type { Clock } from '../../util/clock.ts';

export class LearningRate {
  /** Training time by rank 0's clock, as `Progress.trainedMs` will be after the next step. */
  trainedMs = 0;
  readonly #plan: TrainingPlan;
  readonly #clock: Clock;
  readonly #optimizers: readonly ScheduledOptimizer[];
  /** When the training time was last measured, or could have been. */
  #measuredAt = 0;

  constructor(plan: TrainingPlan, clock: Clock, optimizers: readonly ScheduledOptimizer[]) {
    this.#plan = plan;
    this.#clock = clock;
    this.#optimizers = optimizers;
  }

  /** Called on entering a world: the time between two worlds does not count. */
  enter(): void {
    this.#measuredAt = this.#clock.now();
  }

  /**
   * Measures the training time on rank 0 and sends it to all, so that all stop after the same step.
   * Every rank must call it.
   *
   * @param trainedMs the training time by the last applied step.
   */
  async measure(group: ProcessGroup, trainedMs: number): Promise<void> {
    const now = this.#clock.now();
    const total = Float64Array.of(trainedMs + now - this.#measuredAt);
    this.#measuredAt = now;
    await group.broadcast(total, group.ranks[0]!);
    this.trainedMs = total[0]!;
  }

  /** Sets the rate of the step after `step` others in a run of `totalSteps`. */
  schedule(step: number, totalSteps: number): void {
    const plan = this.#plan;
    const share = step / totalSteps;
    const done = plan.schedule === 'range-test' ? share : Math.max(share, shareOfTime(this.trainedMs, plan));
    const rate = rateAt(plan, step, Math.min(1, done));
    for (const optimizer of this.#optimizers) optimizer.learningRate = rate;
  }
}
