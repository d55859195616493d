/**
 * The work of all ranks between steps: they collect losses, evaluate held-out samples, and compare
 * states. If a world ends before this work is done, the next world does it.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { TrainingPlan } from '../../spec/plan.ts';
import type { EventLoopYielder } from '../../util/clock.ts';
import {
  prefetchHeldOutIndices,
  heldOutIndicesOfRank,
  HeldOutEvaluations,
  type EvaluationResult,
} from '../tasks/evaluation.ts';
import type { RankStep } from './rankStep.ts';
import { StateComparison } from './stateComparison.ts';
import { StepLosses } from './stepLosses.ts';
import type { StepTelemetry } from './telemetry/stepTelemetry.ts';

interface RunDutiesOptions {
  plan: TrainingPlan;
  telemetry: StepTelemetry;
  yielder: EventLoopYielder;
  emit: (event: EngineEvent) => void | Promise<void>;
  keepBest?: () => Promise<void>;
}

export class WorkDueBetweenSteps {
  readonly comparison: StateComparison;
  readonly #rank: RankStep;
  readonly #plan: TrainingPlan;
  readonly #losses: StepLosses;
  readonly #tests: HeldOutEvaluations;

  constructor(rank: RankStep, options: RunDutiesOptions) {
    const { plan } = options;
    this.#rank = rank;
    this.#plan = plan;
    this.#losses = new StepLosses(plan.measure === 'learning-rate');
    this.#tests = new HeldOutEvaluations({ ...options, task: rank.heldOut });
    this.comparison = new StateComparison({ ...options, figures: rank.figures });
  }

  get tested(): EvaluationResult | null {
    return this.#tests.tested;
  }

  /** Called when a step is applied. An elastic strategy collects the losses of all ranks itself. */
  applied(loss: number, samples: number): void {
    const { strategy, progress } = this.#rank;
    if (strategy.reportsAllRanks) progress.now.losses.push(loss);
    else if (!strategy.elastic) this.#losses.add(loss, samples);
  }

  /** Lets the task read the samples of the next evaluation, if it is due soon. */
  readAhead(group: ProcessGroup): void {
    const { heldOut, progress, samples } = this.#rank;
    const { test } = samples.totals;
    const { ahead = 0 } = heldOut;
    if (ahead === 0 || this.#plan.measure !== null) return;
    const due = progress.evaluatedWithin(Math.ceil(ahead / this.#plan.batchSize), samples);
    prefetchHeldOutIndices(
      heldOut,
      due === 0 ? new Uint32Array() : heldOutIndicesOfRank(group, heldOut, Math.min(due, test), test),
    );
  }

  /** Does the work, if all ranks have the same state now. Every rank must call it. */
  async complete(group: ProcessGroup): Promise<void> {
    const { strategy, progress, figures, samples } = this.#rank;
    if (!strategy.isSynchronized) return;
    const { due, now } = progress;
    const wasOver = progress.isOver;
    const step = now.step - 1;
    const { test } = samples.totals;
    await this.#losses.collect(group, now.losses);
    if (due.samples > 0 && test > 0 && this.#plan.measure === null) {
      await this.#tests.run(group, now, due.samples, test);
    }
    // Checked again, because an evaluation may end the run.
    const { isOver } = progress;
    if (isOver && !wasOver) {
      figures.skipBytes();
      await this.#rank.complete?.(group);
    }
    // At the end of the run, the result needs the byte counts of this exchange.
    if (due.comparison || isOver) {
      await this.#rank.compare(group, (stateHash) => this.comparison.compare(group, step, stateHash));
    }
    progress.checked();
    figures.skipBytes();
  }
}
