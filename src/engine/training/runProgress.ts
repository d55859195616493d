/** How far a run is, and when it ends. */
import { isRunOver, startOfRun, type Progress, type RunBounds } from '../../parallel/recovery/progress.ts';
import type { TrainingPlan } from '../../spec/plan.ts';
import type { RangeTest } from './rangeTest.ts';
import type { SampleAssigner } from './data/sampleAssigner.ts';

export class RunProgress {
  /** Shared with the strategy, which replaces its fields by those of the elected state. */
  readonly now: Progress = startOfRun();
  readonly #maxSteps: number;
  readonly #bounds: RunBounds;
  readonly #rangeTest: RangeTest | null;

  constructor(plan: TrainingPlan, rangeTest: RangeTest | null) {
    this.#maxSteps = plan.maxSteps ?? Infinity;
    this.#bounds = rangeTest ? rangeTest.boundsOf(plan) : plan;
    this.#rangeTest = rangeTest;
  }

  get isOver(): boolean {
    return isRunOver(this.now, this.#bounds) || this.#hasExploded;
  }

  /**
   * Whether no step is left, whatever the outcome of tests. Ranks may have to repeat a test of
   * which only some know the outcome; this does not depend on it.
   */
  get hasNoStepsLeft(): boolean {
    return isRunOver(this.now, { ...this.#bounds, patience: null }) || this.#hasExploded;
  }

  /** Steps of the whole run if the world stays as it is. */
  totalSteps(assigner: SampleAssigner): number {
    const { step, position } = this.now;
    const left = this.isOver ? 0 : assigner.stepsLeft(position, this.#bounds.epochs);
    return Math.min(step + left, this.#maxSteps);
  }

  get #hasExploded(): boolean {
    return this.#rangeTest?.hasExploded(this.now.losses) ?? false;
  }
}
