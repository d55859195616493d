/**
 * What all ranks have to do together between steps: collect losses, evaluate held-out samples, and
 * compare states. If a world ends before its duties are done, the next world does them.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import { type TrainingPlan } from '../../spec/plan.ts';
import type { Yielder } from '../../util/clock.ts';
import type { WholeStates } from '../storage/wholeStates.ts';
import {
  dutiesAfter,
  HeldOutTests,
  joined,
  NO_DUTIES,
  testInterval,
  type Duties,
  type HeldOutTask,
} from '../tasks/evaluation.ts';
import type { RangeTest } from './measuring/rangeTest.ts';
import type { RunProgress } from './runProgress.ts';
import type { RunEnd } from './runResult.ts';
import type { RunSamples } from './data/runSamples.ts';
import type { RunStrategy } from './runStrategy.ts';
import { StateComparison } from './stateComparison.ts';
import { StepLosses } from './stepLosses.ts';
import type { StepReporter } from './telemetry/stepReporter.ts';

/**
 * A run with a time limit is assumed to have at most this many steps. The assumption determines the
 * interval between evaluations.
 */
const TIMED_STEPS = 400;

interface RunDutiesOptions {
  plan: TrainingPlan;
  task: HeldOutTask;
  strategy: Pick<RunStrategy, 'reportsAllRanks' | 'isSynchronized' | 'elastic'>;
  /**
   * Makes all ranks' parameters equal. Called if an evaluation ends the run. Missing if they are
   * equal after each step.
   */
  synchronize?: () => Promise<void>;
  run: RunProgress;
  rangeTest: RangeTest | null;
  reporter: StepReporter;
  yielder: Yielder;
  /** Returns the hash of the state; equal on all ranks whose states are equal. */
  stateHash: () => string | Promise<string>;
  emit: (event: EngineEvent) => void | Promise<void>;
  keepBest?: () => Promise<void>;
  /** Missing if the state of a run cannot be saved. */
  wholeStates?: WholeStates | null;
}

/** The samples of a run, as far as they determine the interval between evaluations. */
interface ScheduledSamples extends Pick<RunSamples, 'totals'> {
  assigner: Pick<RunSamples['assigner'], 'stepSamples' | 'stepsLeft'>;
}

/** What is known about a rank when a world is entered. */
interface EnteredRank {
  isFresh: boolean;
  step: number;
  note: { isDue: boolean };
}

export class RunDuties {
  readonly #options: RunDutiesOptions;
  readonly #losses: StepLosses;
  readonly #tests: HeldOutTests;
  readonly #comparison: StateComparison;
  #due: Duties = NO_DUTIES;

  constructor(options: RunDutiesOptions) {
    const { plan, emit, reporter, rangeTest } = options;
    this.#options = options;
    this.#losses = new StepLosses(rangeTest !== null);
    this.#tests = new HeldOutTests(options);
    this.#comparison = new StateComparison({
      plan,
      emit,
      figures: reporter.figures,
      telemetry: reporter.telemetry,
    });
  }

  /** Whether duties remain after the latest step. */
  get isDue(): boolean {
    return this.#due.samples > 0 || this.#due.comparison;
  }

  /** The latest evaluation and comparison, for the run's result. */
  get outcome(): Pick<RunEnd, 'tested' | 'comparison'> {
    return { tested: this.#tests.tested, comparison: this.#comparison };
  }

  /**
   * Called when a world is entered. `ranks` describes its ranks. All ranks do the duties of the
   * latest step, possibly again, in three cases: the run is over; duties remain on a rank that has
   * applied the step; or a rank with a state has applied all steps except the latest.
   */
  enter(ranks: readonly EnteredRank[]): void {
    const { run } = this.#options;
    const { step } = run.now;
    const isAnyoneDue = ranks.some(
      (rank) => !rank.isFresh && (rank.step === step ? rank.note.isDue : rank.step === step - 1),
    );
    // A rank that joins after the final step needs a result, too.
    this.#due = run.isOver || isAnyoneDue ? this.#dutiesNow : NO_DUTIES;
  }

  /** Determines the interval between evaluations, in the first world of a run only. */
  schedule({ totals, assigner }: ScheduledSamples): void {
    const { plan, run } = this.#options;
    if (run.now.evaluateEvery > 0) return;
    const totalSteps = run.totalSteps(assigner);
    const steps = plan.maxMinutes === null ? totalSteps : Math.min(totalSteps, TIMED_STEPS);
    run.now.evaluateEvery = testInterval(totals, plan, assigner.stepSamples, steps);
  }

  /**
   * Called when a state is loaded. It is not known whether the duties of the state's latest step
   * were done. So they are done now. Doing them twice does no harm.
   */
  load(): void {
    this.#due = this.#dutiesNow;
  }

  /** Called when a step is applied. An elastic strategy collects the losses of all ranks itself. */
  applied(loss: number, samples: number): void {
    const { strategy, run } = this.#options;
    if (strategy.reportsAllRanks) run.now.losses.push(loss);
    else if (!strategy.elastic) this.#losses.add(loss, samples);
    this.#due = joined(this.#due, this.#dutiesNow);
  }

  /**
   * Does the duties, if all ranks have the same state now. Every rank must call it.
   *
   * @param heldOut the number of held-out samples on all ranks together.
   */
  async fulfil(group: ProcessGroup, heldOut: number): Promise<void> {
    const { plan, strategy, synchronize, run, rangeTest, reporter, stateHash, wholeStates } = this.#options;
    if (!strategy.isSynchronized) return;
    const { samples, comparison } = this.#due;
    const wasOver = run.isOver;
    const step = run.now.step - 1;
    await this.#losses.collect(group, run.now.losses);
    if (samples > 0 && heldOut > 0 && plan.measure === null) await this.#tests.run(group, run.now, samples, heldOut);
    // Checked again, because an evaluation may end the run.
    const { isOver } = run;
    if (isOver && !wasOver) {
      reporter.figures.skipBytes();
      await synchronize?.();
    }
    if (isOver) await rangeTest?.restore();
    // At the end of the run, the result needs the byte counts of this exchange.
    if (comparison || isOver) {
      const compare = async () => this.#comparison.compare(group, step, await stateHash());
      await (wholeStates?.during(compare) ?? compare());
    }
    this.#due = NO_DUTIES;
    reporter.figures.skipBytes();
  }

  get #dutiesNow(): Duties {
    const { run, plan } = this.#options;
    return dutiesAfter(run.now, plan, run.hasNoStepsLeft);
  }
}
