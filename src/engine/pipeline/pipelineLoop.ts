/**
 * The training loop of a run whose ranks hold stages of the model. It has the interface of
 * `TrainingLoop`. The model is built when the run enters a world, because only then a rank knows
 * its layers.
 */
import { GlobalCursor } from '../../parallel/data/cursor.ts';
import { clipScale } from '../../parallel/flat/clip.ts';
import type { OpenMirrorStorage } from '../../parallel/pipeline/mirrorStorage.ts';
import { idleShare } from '../../parallel/pipeline/schedules.ts';
import { PIPELINE_TIMEOUT_MS } from '../../parallel/pipeline/pipelineStage.ts';
import { advance, type Progress } from '../../parallel/recovery/progress.ts';
import type { Device } from '../../protocol/room.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { FlightRecording } from '../../protocol/flightRecording.ts';
import type { RunResult } from '../../protocol/runResult.ts';
import type { JobSpec } from '../../spec/job.ts';
import type { Activity } from '../../util/activity.ts';
import { Yielder, type Clock } from '../../util/clock.ts';
import { asError, DivergenceError, UsageError } from '../../util/errors.ts';
import { hashState } from '../../util/hash.ts';
import { compareData } from '../training/data/compareData.ts';
import type { HeldOutTask } from '../tasks/evaluation.ts';
import { LearningRate } from '../training/learningRate.ts';
import { RunDuties } from '../training/runDuties.ts';
import { RunProgress } from '../training/runProgress.ts';
import { resultOf } from '../training/runResult.ts';
import type { TrainingWorld } from '../training/trainingLoop.ts';
import type { RunState } from '../storage/runState.ts';
import { countCommands } from '../training/telemetry/countCommands.ts';
import { StepReporter } from '../training/telemetry/stepReporter.ts';
import { agreeOnCut } from './cutModel.ts';
import { HeldStages } from './heldStages.ts';
import type { PipelineTask } from './pipelineTask.ts';
import { receiveStage } from './receiveStage.ts';
import { PipelineGrid } from './pipelineGrid.ts';
import { pipelineEvent } from './pipelineEvent.ts';
import type { RunOutputs } from './stagedWorld.ts';

/** See `TrainingLoop`. */
const YIELD_MS = 200;
/** Time between two reports of passes. */
const PASS_REPORT_MS = 1000;

export interface PipelineLoopOptions {
  plan: JobSpec;
  task: PipelineTask;
  device: Device;
  clock: Clock;
  /** Receives the run's events. If it returns a promise, the run waits for it. */
  emit: (event: EngineEvent) => void | Promise<void>;
  /** Throws if results of the device are invalid. */
  checkDevice: () => void;
  isHidden: () => boolean;
  /** Names what this thread computes. */
  activity: Activity;
  /** Creates the storage of the copy of another rank's stage. */
  openMirrorStorage: OpenMirrorStorage;
  /** The memory of a tab for weights, gradients and averages, in bytes. */
  tabBytes: number;
  /** Files and texts of the run. */
  outputs: RunOutputs;
}

export class PipelineLoop {
  readonly #options: PipelineLoopOptions;
  readonly #dataHash: string;
  readonly #cursor: GlobalCursor;
  readonly #run: RunProgress;
  readonly #reporter: StepReporter;
  readonly #duties: RunDuties;
  readonly #figures = { size: 0, gradientBytes: 0, bucketBytes: [] as number[] };
  readonly #held = new HeldStages();
  /** The learning rate of the next step. */
  readonly #rate: LearningRate;
  #world: TrainingWorld | null = null;
  /** `null` if the model does not fit into the tabs of this world. */
  #grid: PipelineGrid | null = null;
  #worlds = 0;
  #startedAt: number | null = null;
  #busyMs = 0;
  #spanMs = 0;

  private constructor(options: PipelineLoopOptions, dataHash: string) {
    const { plan, task, clock, emit, isHidden } = options;
    this.#options = options;
    this.#dataHash = dataHash;
    this.#cursor = new GlobalCursor({ datasetSize: task.trainSamples, seed: plan.seed });
    this.#run = new RunProgress(plan, null);
    this.#rate = new LearningRate(plan, clock);
    const figures = this.#figures;
    this.#reporter = new StepReporter({
      strategy: figures,
      clock,
      isHidden,
      emit,
      memoryBytes: () => this.#held.stage?.memoryBytes ?? 0,
    });
    this.#duties = new RunDuties({
      plan,
      emit,
      strategy: { reportsAllRanks: true, isSynchronized: true, elastic: null },
      run: this.#run,
      rangeTest: null,
      reporter: this.#reporter,
      yielder: new Yielder(clock, YIELD_MS),
      stateHash: () => this.#held.hash(this.#here.group, this.#grid!),
      task: this.#heldOutTask(task),
    });
  }

  /** Prepares the run on this rank alone. */
  static async prepare(options: PipelineLoopOptions): Promise<PipelineLoop> {
    const { task, activity } = options;
    return new PipelineLoop(options, await activity.during('hash the data', () => task.dataHash()));
  }

  /** The number of applied steps. */
  get steps(): number {
    return this.#run.now.step;
  }

  get reached(): Pick<Progress, 'step' | 'appliedIn'> {
    const { step, appliedIn } = this.#run.now;
    return { step, appliedIn };
  }

  get recorded(): Pick<FlightRecording, 'traces' | 'lanes' | 'clocks'> {
    return this.#reporter.telemetry.recorded;
  }

  /** @throws (rejects) UsageError: no rank has the whole model. */
  snapshot(): Promise<RunState> {
    return Promise.reject(
      new UsageError('A run with a pipeline cannot be saved, because no tab has the whole model. Choose pipeline 1.'),
    );
  }

  /**
   * Agrees with the ranks of a world on the data and on one state, cuts the model into stages, and
   * receives this rank's layers. Every rank must call it. It may be called again for each later
   * world, no matter how the previous world ended.
   *
   * @throws (rejects) as `TrainingLoop.enter`; UsageError if a new model cannot be cut;
   *   PeergradError if layers are lost.
   */
  async enter(world: TrainingWorld): Promise<{ step: number; stateHash: string }> {
    const { plan, task, emit } = this.#options;
    const { group, signal } = world;
    signal.throwIfAborted();
    // Large models take longer than the usual SYNCING.
    group.timeoutMs = PIPELINE_TIMEOUT_MS;
    const { train, test } = await compareData(group, task, { dataHash: this.#dataHash, isFresh: this.#held.isFresh });
    const model = task.createModel();
    const agreed = await this.#held.agree(group, this.#run.now, this.#duties.isDue);
    const grid = await PipelineGrid.create(group, this.#options.plan, model);
    const cut = await agreeOnCut(group, grid, model, {
      ...this.#options,
      maxBytes: this.#options.tabBytes,
      isNew: agreed.scalars === null,
    });
    this.#world = world;
    this.#worlds += 1;
    this.#grid = cut && grid;
    this.#rate.trainedMs = this.#run.now.trainedMs;
    this.#rate.enter();
    if (!cut) return { step: this.steps, stateHash: hashState([Float64Array.of(this.steps)]) };

    const stateHash = await receiveStage({
      ...this.#options,
      group,
      grid,
      model,
      cut,
      agreed,
      held: this.#held,
      step: this.steps,
    });
    this.#figures.size = model.layers.reduce((sum, { size }) => sum + size, 0);
    this.#figures.gradientBytes = this.#figures.size * Float32Array.BYTES_PER_ELEMENT;
    this.#figures.bucketBytes = [this.#figures.gradientBytes];
    this.#reporter.enter(group, grid.bytesWith(group), grid.plan);
    const totals = { train, test };
    this.#duties.schedule({ totals, assigner: this.#assigner });
    this.#duties.enter(agreed.ranks);
    [this.#busyMs, this.#spanMs] = [0, 0];
    await this.#reporter.emitModel(totals, this.#totalSteps);
    await emit(pipelineEvent(plan, model, grid, cut));
    return { step: this.steps, stateHash };
  }

  /** Takes all remaining steps; see `TrainingLoop.run`. */
  async run(): Promise<RunResult> {
    const { clock, task, outputs } = this.#options;
    const { group, signal } = this.#here;
    const grid = this.#grid;
    if (!grid) return untilAborted(signal);
    this.#startedAt ??= clock.now();
    // A rank waits for the passes of all other ranks.
    group.timeoutMs = PIPELINE_TIMEOUT_MS;
    const yielder = new Yielder(clock, YIELD_MS);
    outputs.enter({ group, grid, stage: this.#held.stage, stateHash: () => this.#held.hash(group, grid) });
    this.#reporter.figures.skipBytes();
    try {
      for (;;) {
        await this.#duties.fulfil(group, task.testSamples);
        if (this.#run.isOver) {
          const texts = await outputs.finish(this.steps);
          return { ...(await this.#result(grid, clock.now() - this.#startedAt)), ...texts };
        }
        signal.throwIfAborted();
        const startedAt = this.#startedAt;
        await this.#takeStep(grid, startedAt);
        await yielder.yieldIfDue();
      }
    } catch (error) {
      const isDivergent = error instanceof DivergenceError && error.context.divergent?.includes(group.rank);
      // In the next world, this rank receives its layers from other ranks.
      if (isDivergent) this.#held.dispose();
      throw error;
    }
  }

  dispose(): void {
    this.#held.dispose();
  }

  get #here(): TrainingWorld {
    if (!this.#world) throw new UsageError('The run has no world yet. Call enter first.');
    return this.#world;
  }

  get #assigner() {
    const { stepSamples } = this.#grid!;
    return {
      stepSamples,
      stepsLeft: (position: Progress['position'], epochs: number) =>
        this.#cursor.stepsLeft(position, epochs, stepSamples),
    };
  }

  get #totalSteps(): number {
    return this.#run.totalSteps(this.#assigner);
  }

  async #takeStep(grid: PipelineGrid, runStartedAt: number): Promise<void> {
    const { clock, emit, plan, checkDevice, outputs, activity } = this.#options;
    const { group } = this.#here;
    const { stage } = this.#held;
    const { figures } = this.#reporter;
    const { step, position, trainedMs } = this.#run.now;
    const window = this.#cursor.windowAt(position, grid.stepSamples);
    if (plan.maxMinutes !== null) {
      await this.#rate.measure(group, trainedMs);
      figures.skipBytes();
    }
    const learningRate = this.#rate.at(step, this.#totalSteps);
    const { epoch, offset, indices } = window;
    await emit({ type: 'begin', step, epoch, samples: indices.length });
    const startedAt = clock.now();
    const commandsSince = countCommands();
    let reportedAt = startedAt;
    const onpass = (): void => {
      if (clock.now() - reportedAt < PASS_REPORT_MS) return;
      reportedAt = clock.now();
      void emit({ type: 'pass', step });
    };
    const during = (pass: () => Promise<void>): Promise<void> => activity.during(`step ${step}`, pass);
    const learned = stage ? await stage.learn(grid.shareOf(indices), step, indices.length, { onpass, during }) : null;
    checkDevice();
    const computedAt = clock.now();
    await this.#held.exchangeGradients(group);
    // Loss, squared norm of the gradient, and number of queries. When they are known, every rank
    // may apply the step.
    const own = grid.replica === 0 ? (learned?.squares ?? 0) : 0;
    const sums = Float64Array.of(learned?.loss ?? 0, own, outputs.waiting);
    await group.allReduce(sums);
    const reducedAt = clock.now();
    const [lossSum, squares, queries] = sums as unknown as [number, number, number];
    const scale = plan.clipNorm === null ? 1 : clipScale(Math.sqrt(squares), plan.clipNorm);
    await this.#held.apply({ learningRate, scale });
    const loss = lossSum / indices.length;
    advance(this.#run.now, group.generation, window.next);
    this.#run.now.trainedMs = this.#rate.trainedMs;
    this.#duties.applied(loss, indices.length);
    figures.countBytes();
    const passes = learned?.passes ?? [];
    const compute = passes.reduce((sum, { start, end }) => sum + end - start, 0);
    this.#busyMs += compute;
    this.#spanMs += computedAt - startedAt;
    const exposed = reducedAt - startedAt - compute;
    await this.#reporter.took(
      {
        step,
        epoch,
        offset,
        startedAt,
        runStartedAt,
        commands: commandsSince(),
        pipeline: { passes, exchangedAt: computedAt },
      },
      {
        loss,
        samples: indices.length,
        traces: [],
        compute,
        readback: 0,
        communicate: exposed,
        exposed,
        update: clock.now() - reducedAt,
      },
    );
    await outputs.applied(step + 1, loss, queries);
  }

  /** The ranks of a replica evaluate the same samples together. */
  #heldOutTask({ testSamples, classifies, classes, score }: PipelineTask): HeldOutTask {
    const grid = (): PipelineGrid => this.#grid!;
    return {
      testSamples,
      classifies,
      classes,
      score,
      get testBatch() {
        const { rows, microBatches } = grid();
        return rows * microBatches;
      },
      get share() {
        const { replica, replicas, stage, stages } = grid();
        // A rank without a stage counts nothing.
        return { index: replica ?? 0, of: replicas, counts: stage === stages - 1 };
      },
      evaluate: (indices) => this.#evaluate(indices),
    };
  }

  async #evaluate(indices: Uint32Array) {
    return (await this.#held.stage?.evaluate(indices)) ?? { lossSum: 0, correct: 0 };
  }

  async #result(grid: PipelineGrid, ms: number): Promise<RunResult> {
    const { group, transport } = this.#here;
    const { stage } = this.#held;
    const own = { busyMs: this.#busyMs, spanMs: this.#spanMs, layers: stage?.layerNames ?? [] };
    const ranks = await group.allGatherObject(own);
    const busy = ranks.reduce((sum, { busyMs }) => sum + busyMs, 0);
    const span = Math.max(...ranks.map(({ spanMs }) => spanMs)) * grid.stages * grid.replicas;
    return resultOf(
      {
        ...this.#options,
        progress: this.#run.now,
        strategy: { gradientBytes: this.#figures.gradientBytes, elastic: null },
        reporter: this.#reporter,
        ...this.#duties.outcome,
        rangeTest: null,
        methodTest: null,
        shares: null,
      },
      {
        worldSize: group.worldSize,
        transport,
        restarts: this.#worlds - 1,
        ms,
        pipeline: {
          stages: grid.stages,
          replicas: grid.replicas,
          microBatches: grid.microBatches,
          layers: ranks.map(({ layers }) => layers),
          idle: { measured: span > 0 ? 1 - busy / span : 0, plan: idleShare(grid.plan) },
        },
      },
    );
  }
}

/** Rejects with the reason of `signal` once it is aborted. */
function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const abort = (): void => reject(asError(signal.reason));
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
  });
}
