/**
 * The learning rate of each step. The plan's schedule depends on the steps or on the training
 * time of the run.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { learningRateAt } from '../../optim/schedule.ts';
import { usedTimeShare } from '../../parallel/recovery/progress.ts';
import type { TrainingPlan } from '../../spec/plan.ts';
import type { Clock } from '../../util/clock.ts';

export class LearningRateSchedule {
  /**
   * The training time at the latest measurement, in milliseconds of rank 0's clock. When the next
   * step is applied, this becomes `TrainingProgress.trainedMs`.
   */
  trainedMs = 0;
  readonly #plan: TrainingPlan;
  readonly #clock: Clock;
  /** The time of the latest measurement, or the time when the current world was entered. */
  #measuredAt = 0;

  constructor(plan: TrainingPlan, clock: Clock) {
    this.#plan = plan;
    this.#clock = clock;
  }

  /**
   * Called when a world is entered, because time between two worlds is not training time.
   *
   * @param trainedMs the training time up to the latest applied step.
   */
  enter(trainedMs: number): void {
    this.trainedMs = trainedMs;
    this.#measuredAt = this.#clock.now();
  }

  /**
   * Measures the training time on rank 0 and sends it to all ranks, so that all ranks stop after
   * the same step. Every rank must call it.
   *
   * @param trainedMs the training time up to the latest applied step.
   */
  async measure(group: ProcessGroup, trainedMs: number): Promise<void> {
    const now = this.#clock.now();
    const total = Float64Array.of(trainedMs + now - this.#measuredAt);
    this.#measuredAt = now;
    await group.broadcast(total, group.ranks[0]!);
    this.trainedMs = total[0]!;
  }

  /**
   * Returns the learning rate of the step that follows the first `step` steps, in a run of
   * `totalSteps` steps.
   */
  at(step: number, totalSteps: number): number {
    const plan = this.#plan;
    const share = step / totalSteps;
    const done = plan.measure === 'learning-rate' ? share : Math.max(share, usedTimeShare(this.trainedMs, plan));
    return learningRateAt(plan, step, Math.min(1, done));
  }
}
