/** Counts and times the steps of a run, and emits them as events. */
import type { ProcessGroup } from '../../../collectives/processGroup.ts';
import type { PipelinePlan } from '../../../parallel/pipeline/schedules.ts';
import type { StepReport } from '../../../parallel/strategies/index.ts';
import type { EngineEvent } from '../../../protocol/events.ts';
import type { CodecChoice } from '../../../protocol/runResult.ts';
import type { GpuCommands, StepTimes } from '../../../protocol/stepTrace.ts';
import type { RunAlgorithm } from '../../../spec/algorithms.ts';
import { pipelineSegments, type PipelineTimes } from '../../../telemetry/stepLane.ts';
import type { Clock } from '../../../util/clock.ts';
import { memoryBytes } from '../../device/memory.ts';
import { RunStats, type GroupBytes } from './runStats.ts';
import type { RunStrategy } from '../runStrategy.ts';
import { StepTelemetry } from './stepTelemetry.ts';

interface StepReporterOptions {
  strategy: Pick<RunStrategy, 'size' | 'gradientBytes' | 'bucketBytes'>;
  clock: Clock;
  isHidden: () => boolean;
  /** Returns the bytes that the model uses in this tab. By default those of its tensors. */
  memoryBytes?: () => number;
  emit: (event: EngineEvent) => void | Promise<void>;
}

/** A step that was taken. `startedAt` and `runStartedAt` are times of this rank's clock. */
interface TakenStep {
  step: number;
  epoch: number;
  offset: number;
  startedAt: number;
  runStartedAt: number;
  /** `null` if this rank does not compute on WebGPU. */
  commands: GpuCommands | null;
  /** In a pipeline: the times of this rank's passes. */
  pipeline?: PipelineTimes;
}

export class StepReporter {
  readonly figures: RunStats;
  readonly telemetry: StepTelemetry;
  readonly #options: StepReporterOptions;
  #choice: CodecChoice | null = null;
  #algorithm: RunAlgorithm | null = null;

  constructor(options: StepReporterOptions) {
    this.#options = options;
    this.figures = new RunStats(options.memoryBytes ?? memoryBytes);
    this.telemetry = new StepTelemetry(options.clock, options.isHidden);
  }

  /** The codec that ranks have chosen in this world, and the reason for it. */
  get choice(): CodecChoice | null {
    return this.#choice;
  }

  /**
   * Enters another world, in which no codec is chosen yet.
   *
   * @param bytes the bytes of all groups of the run, if there are several.
   * @param plan passes of each rank of a pipeline, if there is one.
   */
  enter(group: ProcessGroup, bytes: GroupBytes = group, plan: Pick<PipelinePlan, 'passes'> | null = null): void {
    this.figures.enter(bytes);
    this.telemetry.enter(group, plan ? pipelineSegments(plan.passes) : undefined);
    this.#choice = null;
    this.#algorithm = null;
  }

  async emitModel(samples: { train: number; test: number }, totalSteps: number): Promise<void> {
    const { emit, strategy } = this.#options;
    const { size, gradientBytes, bucketBytes } = strategy;
    await emit({
      type: 'model',
      parameters: size,
      gradientBytes,
      bucketBytes: [...bucketBytes],
      totalSteps,
      trainSamples: samples.train,
      testSamples: samples.test,
    });
  }

  async took(taken: TakenStep, report: StepReport): Promise<void> {
    const { step, epoch, offset, startedAt, runStartedAt, commands, pipeline } = taken;
    const { clock, emit, strategy } = this.#options;
    const { loss, samples, traces, choice } = report;
    if (choice) {
      this.#choice = choice;
      await emit({ type: 'codec', step, choice });
    }
    const now = clock.now();
    const ms = timesOf(report, now - startedAt);
    this.figures.took(ms, commands);
    const { algorithm } = this.figures;
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

function timesOf({ compute, readback, communicate, exposed, update }: StepReport, total: number): StepTimes {
  return { total, compute, readback, communicate, exposed, update };
}
