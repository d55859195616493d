/**
 * The training loop of a run whose ranks hold stages of the model. It has the interface of
 * `TrainingLoop`. The model is built when the run enters a world, because only then a rank knows
 * its layers.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { createOptimizer } from '../../optim/index.ts';
import { GlobalCursor } from '../../parallel/data/cursor.ts';
import { clipScale } from '../../parallel/ddp/clip.ts';
import { PIPELINE_TIMEOUT_MS } from '../../parallel/pipeline/pipelineStage.ts';
import { allGatherHashes } from '../../parallel/recovery/hashes.ts';
import { advance, type Progress } from '../../parallel/recovery/progress.ts';
import { ScheduledOptimizer } from '../../parallel/strategies/scheduledOptimizer.ts';
import type { Device } from '../../protocol/room.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { FlightRecording } from '../../protocol/flightRecording.ts';
import type { RunResult } from '../../protocol/runResult.ts';
import type { JobSpec } from '../../spec/job.ts';
import type { Clock } from '../../util/clock.ts';
import { PeergradError, UsageError } from '../../util/errors.ts';
import { hashState } from '../../util/hash.ts';
import { Yielder } from '../../util/yielder.ts';
import { compareData } from '../training/data/compareData.ts';
import type { HeldOutTask } from '../training/evaluation.ts';
import { LearningRate } from '../training/learningRate.ts';
import { RunDuties } from '../training/runDuties.ts';
import { RunProgress } from '../training/runProgress.ts';
import { resultOf } from '../training/runResult.ts';
import type { RunState } from '../training/runState.ts';
import { countCommands } from '../training/telemetry/countCommands.ts';
import { StepReporter } from '../training/telemetry/stepReporter.ts';
import { PipelineModelStage } from './pipelineModelStage.ts';
import type { PipelineTask } from './pipelineTask.ts';
import { PipelineGrid } from './pipelineGrid.ts';
import { pipelineEvent } from './pipelineEvent.ts';

/** See `TrainingLoop`. */
const YIELD_MS = 200;
/**
 * The longest time of one layer. Without a GPU, a layer of a large model takes many seconds, in
 * which the tab can send nothing.
 */
const LONGEST_LAYER_MS = 60_000;

interface PipelineLoopOptions {
  plan: JobSpec;
  task: PipelineTask;
  device: Device;
  clock: Clock;
  /** Receives the run's events. If it returns a promise, the run waits for it. */
  emit: (event: EngineEvent) => void | Promise<void>;
  /** Throws if results of the device are invalid. */
  checkDevice: () => void;
  isHidden: () => boolean;
  /** See `RunParticipantOptions`. */
  announceSilence: (ms: number) => void;
}

/** The ranks with which a run trains, and this rank's part of the model. */
interface World {
  group: ProcessGroup;
  transport: RunResult['transport'];
  signal: AbortSignal;
  grid: PipelineGrid;
  /** See `schedules.ts`. */
  ring: boolean;
  /** `null` on a rank without a stage. */
  stage: PipelineModelStage | null;
  rate: LearningRate;
}

export class PipelineLoop {
  readonly #options: PipelineLoopOptions;
  readonly #dataHash: string;
  readonly #cursor: GlobalCursor;
  readonly #run: RunProgress;
  readonly #reporter: StepReporter;
  readonly #duties: RunDuties;
  readonly #figures = { size: 0, gradientBytes: 0, bucketBytes: [] as number[] };
  #world: World | null = null;
  #busyMs = 0;
  #spanMs = 0;

  private constructor(options: PipelineLoopOptions, dataHash: string) {
    const { plan, task, clock, emit, isHidden } = options;
    this.#options = options;
    this.#dataHash = dataHash;
    this.#cursor = new GlobalCursor({ datasetSize: task.trainSamples, seed: plan.seed });
    this.#run = new RunProgress(plan, null);
    const figures = this.#figures;
    this.#reporter = new StepReporter({
      strategy: figures,
      clock,
      isHidden,
      emit,
      memoryBytes: () => this.#world?.stage?.memoryBytes ?? 0,
    });
    this.#duties = new RunDuties({
      plan,
      emit,
      strategy: { reportsAllRanks: true, isSynchronized: true, elastic: null },
      run: this.#run,
      rangeTest: null,
      reporter: this.#reporter,
      yielder: new Yielder(clock, YIELD_MS),
      stateHash: () => this.#modelHash(),
      task: this.#heldOutTask(task),
    });
  }

  /** Prepares the run on this rank alone. */
  static async prepare(options: PipelineLoopOptions): Promise<PipelineLoop> {
    return new PipelineLoop(options, await options.task.dataHash());
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
   * Agrees with the ranks of a world on the data, cuts the model into stages and builds this rank's
   * layers. Every rank must call it.
   *
   * @throws (rejects) as `TrainingLoop.enter`; UsageError if the model cannot be cut.
   */
  async enter({ group, transport, signal }: Pick<World, 'group' | 'transport' | 'signal'>) {
    const { plan, task, clock, emit } = this.#options;
    signal.throwIfAborted();
    if (this.#world) {
      throw new PeergradError(
        'Ranks have joined or left, and a pipeline cannot continue with other ranks yet. Start again, or choose pipeline 1.',
        { rank: group.rank, worldSize: group.worldSize },
      );
    }
    const isFresh = this.steps === 0;
    const { train, test } = await compareData(group, task, { dataHash: this.#dataHash, isFresh });
    const model = task.createModel();
    const grid = await PipelineGrid.create(group, plan, model.layers.length);
    const optimizers: ScheduledOptimizer[] = [];
    const { optimizer, learningRate, weightDecay } = plan;
    const settings = { learningRate, ...(weightDecay === null ? {} : { weightDecay }) };
    const { cut, stage } = await PipelineModelStage.create(model, group, grid, {
      job: plan,
      task,
      clock,
      createOptimizer: (size) => {
        const scheduled = new ScheduledOptimizer(createOptimizer(optimizer, settings, size), null);
        optimizers.push(scheduled);
        return scheduled;
      },
    });
    this.#world = {
      group,
      transport,
      signal,
      grid,
      ring: model.ring,
      stage,
      rate: new LearningRate(plan, clock, optimizers),
    };
    this.#figures.size = model.layers.reduce((sum, { size }) => sum + size, 0);
    this.#figures.gradientBytes = this.#figures.size * Float32Array.BYTES_PER_ELEMENT;
    this.#figures.bucketBytes = [this.#figures.gradientBytes];
    this.#reporter.enter(group, grid.bytesWith(group), grid.planOf(model.ring));
    this.#world.rate.enter();
    const totals = { train, test };
    this.#duties.schedule({ totals, assigner: this.#assigner });
    this.#duties.enter([]);
    await this.#reporter.emitModel(totals, this.#totalSteps);
    await emit(pipelineEvent(plan, model, grid, cut));
    return { step: this.steps, stateHash: await this.#modelHash() };
  }

  /** Takes all remaining steps; see `TrainingLoop.run`. */
  async run(): Promise<RunResult> {
    const { clock, task, announceSilence } = this.#options;
    const { group, signal } = this.#here;
    announceSilence(LONGEST_LAYER_MS);
    // A rank waits for the passes of all other ranks.
    group.timeoutMs = PIPELINE_TIMEOUT_MS;
    const startedAt = clock.now();
    const yielder = new Yielder(clock, YIELD_MS);
    this.#reporter.figures.skipBytes();
    for (;;) {
      await this.#duties.fulfil(group, task.testSamples);
      if (this.#run.isOver) {
        announceSilence(0);
        return this.#result(clock.now() - startedAt);
      }
      signal.throwIfAborted();
      await this.#takeStep(startedAt);
      await yielder.yieldIfDue();
    }
  }

  dispose(): void {
    this.#world?.stage?.dispose();
  }

  get #here(): World {
    if (!this.#world) throw new UsageError('The run has no world yet. Call enter first.');
    return this.#world;
  }

  get #assigner() {
    const { stepSamples } = this.#here.grid;
    return {
      stepSamples,
      stepsLeft: (position: Progress['position'], epochs: number) =>
        this.#cursor.stepsLeft(position, epochs, stepSamples),
    };
  }

  get #totalSteps(): number {
    return this.#run.totalSteps(this.#assigner);
  }

  async #takeStep(runStartedAt: number): Promise<void> {
    const { clock, emit, plan, checkDevice } = this.#options;
    const { group, grid, stage, rate } = this.#here;
    const { figures } = this.#reporter;
    const { step, position, trainedMs } = this.#run.now;
    const window = this.#cursor.windowAt(position, grid.stepSamples);
    if (plan.maxMinutes !== null) {
      await rate.measure(group, trainedMs);
      figures.skipBytes();
    }
    rate.schedule(step, this.#totalSteps);
    const { epoch, offset, indices } = window;
    await emit({ type: 'begin', step, epoch, samples: indices.length });
    const startedAt = clock.now();
    const commandsSince = countCommands();
    const learned = stage ? await stage.learn(grid.shareOf(indices), step, indices.length) : null;
    checkDevice();
    const computedAt = clock.now();
    // Loss and squared norm of the gradient. When they are known, every rank has its gradient.
    const sums = Float64Array.of(learned?.loss ?? 0, grid.replica === 0 ? (learned?.squares ?? 0) : 0);
    await group.allReduce(sums);
    const reducedAt = clock.now();
    const [lossSum, squares] = sums as unknown as [number, number];
    stage?.apply(plan.clipNorm === null ? 1 : clipScale(Math.sqrt(squares), plan.clipNorm));
    const loss = lossSum / indices.length;
    advance(this.#run.now, group.generation, window.next);
    this.#run.now.trainedMs = rate.trainedMs;
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
  }

  /** The ranks of a replica evaluate the same samples together. */
  #heldOutTask({ testSamples, classifies, classes, score }: PipelineTask): HeldOutTask {
    const here = (): World => this.#here;
    return {
      testSamples,
      classifies,
      classes,
      score,
      get testBatch() {
        const { rows, microBatches } = here().grid;
        return rows * microBatches;
      },
      get share() {
        const { replica, replicas, stage, stages } = here().grid;
        // A rank without a stage counts nothing.
        return { index: replica ?? 0, of: replicas, counts: stage === stages - 1 };
      },
      evaluate: (indices) => this.#evaluate(indices),
    };
  }

  async #evaluate(indices: Uint32Array) {
    const { stage } = this.#here;
    return (await stage?.evaluate(indices)) ?? { lossSum: 0, correct: 0 };
  }

  /** Returns the hash of this rank's replica: of the states of all its stages. */
  async #modelHash(): Promise<string> {
    const { group, grid, stage } = this.#here;
    const hashes = await allGatherHashes(group, hashState(stage?.state() ?? []));
    return hashState([
      new TextEncoder().encode(
        grid
          .ranksOf(grid.replica ?? 0)
          .map((rank) => hashes[rank]!)
          .join(),
      ),
    ]);
  }

  async #result(ms: number): Promise<RunResult> {
    const { group, transport, grid, ring, stage } = this.#here;
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
        shares: null,
      },
      {
        worldSize: group.worldSize,
        transport,
        restarts: 0,
        ms,
        pipeline: {
          stages: grid.stages,
          replicas: grid.replicas,
          microBatches: grid.microBatches,
          layers: ranks.map(({ layers }) => layers),
          idle: { measured: span > 0 ? 1 - busy / span : 0, plan: grid.idleShare(ring) },
        },
      },
    );
  }
}
