/** Holds the progress of a run, and decides when the run ends. */
import { isRunOver, startOfRun, type Progress, type RunBounds } from '../../parallel/recovery/progress.ts';
import type { TrainingPlan } from '../../spec/plan.ts';
import { METHOD_TEST_BOUNDS } from './measuring/methodTest.ts';
import type { RangeTest } from './measuring/rangeTest.ts';
import type { SampleAssigner } from './data/sampleAssigner.ts';

export class RunProgress {
  /**
   * The progress. The strategy has the same object, and overwrites its fields with those of the
   * elected state.
   */
  readonly now: Progress = startOfRun();
  readonly #maxSteps: number;
  readonly #bounds: RunBounds;
  readonly #rangeTest: RangeTest | null;

  constructor(plan: TrainingPlan, rangeTest: RangeTest | null) {
    this.#bounds = plan.measure === 'methods' ? METHOD_TEST_BOUNDS : (rangeTest?.boundsOf(plan) ?? plan);
    this.#maxSteps = this.#bounds.maxSteps ?? Infinity;
    this.#rangeTest = rangeTest;
  }

  get isOver(): boolean {
    return isRunOver(this.now, this.#bounds) || this.#hasExploded;
  }

  /**
   * Whether no step remains, without regard to early stopping (`patience`). Early stopping depends
   * on the latest evaluation, which some ranks may not know yet.
   */
  get hasNoStepsLeft(): boolean {
    return isRunOver(this.now, { ...this.#bounds, patience: null }) || this.#hasExploded;
  }

  /** Returns the number of steps of the whole run if the ranks do not change any more. */
  totalSteps(assigner: Pick<SampleAssigner, 'stepsLeft'>): number {
    const { step, position } = this.now;
    const left = this.isOver ? 0 : assigner.stepsLeft(position, this.#bounds.epochs);
    return Math.min(step + left, this.#maxSteps);
  }

  get #hasExploded(): boolean {
    return this.#rangeTest?.hasExploded(this.now.losses) ?? false;
  }
}
