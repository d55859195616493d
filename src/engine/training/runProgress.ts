/**
 * Holds the progress of a run: its applied steps, and the checks that ranks make after the latest
 * step. Decides when the run ends.
 */
import type { DataCursorPosition } from '../../parallel/data/cursor.ts';
import {
  isRunLimitReached,
  recordAppliedStep,
  initialTrainingProgress,
  type TrainingProgress,
  type RunLimits,
} from '../../parallel/recovery/progress.ts';
import type { TrainingPlan } from '../../spec/plan.ts';
import {
  checksDueAfterStep,
  mergeDueChecks,
  NO_DUE_CHECKS,
  evaluationIntervalSteps,
  type DueChecks,
} from '../tasks/evaluation.ts';
import type { SampleAssigner } from './data/sampleAssigner.ts';
import { METHOD_TEST_RUN_BOUNDS } from './measuring/methodTest.ts';
import type { RangeTest } from './measuring/rangeTest.ts';

/** The samples of a run. */
export interface ScheduledSamples {
  /** The numbers of training samples and of held-out samples, on all ranks together. */
  readonly totals: { readonly train: number; readonly test: number };
  readonly assigner: Pick<SampleAssigner, 'stepSamples' | 'stepsLeft'>;
}

/** Facts about a rank that enters a world. */
export interface EnteringRankFacts {
  isFresh: boolean;
  step: number;
  note: { isDue: boolean };
}

export class RunProgress {
  /**
   * The progress. The strategy has the same object, and overwrites its fields with those of the
   * elected state.
   */
  readonly now: TrainingProgress = initialTrainingProgress();
  readonly #plan: TrainingPlan;
  readonly #bounds: RunLimits;
  readonly #rangeTest: RangeTest | null;
  #due: DueChecks = NO_DUE_CHECKS;

  constructor(plan: TrainingPlan, rangeTest: RangeTest | null) {
    this.#plan = plan;
    this.#bounds = plan.measure === 'methods' ? METHOD_TEST_RUN_BOUNDS : (rangeTest?.boundsOf(plan) ?? plan);
    this.#rangeTest = rangeTest;
  }

  get isOver(): boolean {
    return isRunLimitReached(this.now, this.#bounds) || this.#hasExploded;
  }

  /**
   * Whether no step remains, without regard to early stopping (`patience`). Early stopping depends
   * on the latest evaluation, which some ranks may not know yet.
   */
  get hasNoStepsLeft(): boolean {
    return isRunLimitReached(this.now, { ...this.#bounds, patience: null }) || this.#hasExploded;
  }

  /** The checks that remain after the latest step. */
  get due(): DueChecks {
    return this.#due;
  }

  get isDue(): boolean {
    return this.#due.samples > 0 || this.#due.comparison;
  }

  /** Returns the number of steps of the whole run if the ranks do not change any more. */
  totalSteps({ assigner }: ScheduledSamples): number {
    const { step, position } = this.now;
    const left = this.isOver ? 0 : assigner.stepsLeft(position, this.#bounds.epochs);
    return Math.min(step + left, this.#bounds.maxSteps ?? Infinity);
  }

  /**
   * Returns the number of samples of an evaluation within the next `steps` steps; 0 if none is due.
   */
  evaluatedWithin(steps: number, samples: ScheduledSamples): number {
    const { step, position } = this.now;
    const ofEpoch = samples.assigner.stepsLeft(position, position.epoch + 1);
    const last = this.totalSteps(samples);
    for (let i = 1; i <= Math.min(steps, ofEpoch, last - step); i++) {
      const after = { ...this.now, step: step + i, position: { ...position, offset: i === ofEpoch ? 0 : 1 } };
      const { samples: due } = checksDueAfterStep(after, this.#plan, step + i === last);
      if (due > 0) return due;
    }
    return 0;
  }

  /**
   * Continues from a saved state. It is not known whether the checks after its latest step were
   * made. So they are made now. Making them twice does no harm.
   */
  load(saved: TrainingProgress): void {
    Object.assign(this.now, structuredClone(saved));
    this.#due = this.#dueNow;
  }

  /**
   * Called when a world is entered. `ranks` describes its ranks. All ranks make the checks of the
   * latest step, possibly again, in three cases: the run is over; checks remain on a rank that has
   * applied the step; or a rank with a state has applied all steps except the latest.
   */
  enter(ranks: readonly EnteringRankFacts[], samples: ScheduledSamples): void {
    this.#schedule(samples);
    const { step } = this.now;
    const isAnyoneDue = ranks.some(
      (rank) => !rank.isFresh && (rank.step === step ? rank.note.isDue : rank.step === step - 1),
    );
    // A rank that joins after the final step needs a result, too.
    this.#due = this.isOver || isAnyoneDue ? this.#dueNow : NO_DUE_CHECKS;
  }

  /** Called when a step is applied; the next step begins at `next`. */
  applied(generation: number, next: DataCursorPosition, trainedMs: number): void {
    recordAppliedStep(this.now, generation, next);
    this.now.trainedMs = trainedMs;
    this.#due = mergeDueChecks(this.#due, this.#dueNow);
  }

  /** Called when all checks are made. */
  checked(): void {
    this.#due = NO_DUE_CHECKS;
  }

  /** Determines the interval between evaluations, in the first world of a run only. */
  #schedule(samples: ScheduledSamples): void {
    if (this.now.evaluateEvery > 0) return;
    const totalSteps = this.totalSteps(samples);
    this.now.evaluateEvery = evaluationIntervalSteps(
      samples.totals,
      this.#plan,
      samples.assigner.stepSamples,
      totalSteps,
    );
  }

  get #dueNow(): DueChecks {
    return checksDueAfterStep(this.now, this.#plan, this.hasNoStepsLeft);
  }

  get #hasExploded(): boolean {
    return this.#rangeTest?.hasExploded(this.now.losses) ?? false;
  }
}
