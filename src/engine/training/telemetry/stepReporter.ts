/** Counts and times the steps of a run, and emits them as events. */
import type { ProcessGroup } from '../../../collectives/processGroup.ts';
import type { StepReport } from '../../../parallel/strategies/index.ts';
import type { EngineEvent } from '../../../protocol/events.ts';
import type { CodecChoice } from '../../../protocol/runResult.ts';
import type { StepCommandCounts, StepTimes } from '../../../protocol/stepTrace.ts';
import type { RunAlgorithm } from '../../../spec/algorithms.ts';
import { pipelineStepSegmentCount } from '../../../telemetry/stepLane.ts';
import type { Clock } from '../../../util/clock.ts';
import type { RankStep, RankStepOutcome } from '../rankStep.ts';
import { StepTelemetry } from './stepTelemetry.ts';

interface StepReporterOptions {
  clock: Clock;
  /** Returns whether this rank's page is hidden. By default it is never hidden. */
  isHidden?: () => boolean;
  emit: (event: EngineEvent) => void | Promise<void>;
}

/** A step that was taken. `startedAt` and `runStartedAt` are times of this rank's clock. */
interface ReportedStep extends Omit<RankStepOutcome, 'after'> {
  step: number;
  epoch: number;
  offset: number;
  startedAt: number;
  runStartedAt: number;
  /** Commands that the GPU received in the step; `null` if this rank does not compute on WebGPU. */
  commands: StepCommandCounts | null;
}

export class StepReporter {
  readonly telemetry: StepTelemetry;
  readonly #rank: RankStep;
  readonly #options: StepReporterOptions;
  #choice: CodecChoice | null = null;
  #algorithm: RunAlgorithm | null = null;

  constructor(rank: RankStep, options: StepReporterOptions) {
    const { clock, isHidden = () => false } = options;
    this.#rank = rank;
    this.#options = options;
    this.telemetry = new StepTelemetry(clock, isHidden);
  }

  /** The codec that ranks have chosen in this world, and the reason for it. */
  get choice(): CodecChoice | null {
    return this.#choice;
  }

  /** Enters a world, in which no codec is chosen yet. */
  async enter(group: ProcessGroup): Promise<void> {
    const { passes, progress, samples, strategy } = this.#rank;
    this.telemetry.enter(group, passes ? pipelineStepSegmentCount(passes) : undefined);
    this.#choice = null;
    this.#algorithm = null;
    const { size, gradientBytes, bucketBytes } = strategy;
    await this.#options.emit({
      type: 'model',
      parameters: size,
      gradientBytes,
      bucketBytes: [...bucketBytes],
      totalSteps: progress.totalSteps(samples),
      trainSamples: samples.totals.train,
      testSamples: samples.totals.test,
    });
  }

  async took(taken: ReportedStep): Promise<void> {
    const { step, epoch, offset, startedAt, runStartedAt, commands, report, data, pipeline } = taken;
    const { clock, emit } = this.#options;
    const { figures, strategy } = this.#rank;
    const { loss, samples, traces, choice } = report;
    if (choice) {
      this.#choice = choice;
      await emit({ type: 'codec', step, choice });
    }
    const now = clock.now();
    const ms = timesOf(report, { total: now - startedAt, data });
    figures.took(ms, commands);
    const { algorithm } = figures;
    if (algorithm !== this.#algorithm) {
      this.#algorithm = algorithm;
      await emit({ type: 'algorithm', step, algorithm });
    }
    const { bucketBytes } = strategy;
    for (const event of this.telemetry.took({ step, startedAt, ms, traces, pipeline, bucketBytes, commands }))
      await emit(event);
    await emit({ type: 'step', step, epoch, offset, loss, samples, ms, at: now - runStartedAt });
  }
}

function timesOf(
  { compute, readback, communicate, exposed, update }: StepReport,
  { total, data }: Pick<StepTimes, 'total' | 'data'>,
): StepTimes {
  return { total, data, compute, readback, communicate, exposed, update };
}
