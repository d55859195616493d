/**
 * The steps of a rank that has a stage of the model. The rank computes its layers for all
 * micro-batches of its replica. Its stage is built when the run enters a world, because only then
 * does a rank know its layers.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { GlobalCursor, type SampleWindow } from '../../parallel/data/cursor.ts';
import { clipScale } from '../../parallel/flat/clip.ts';
import type { OpenStageMirrorStorage } from '../../parallel/pipeline/mirrorStorage.ts';
import { PIPELINE_TIMEOUT_MS } from '../../parallel/pipeline/pipelineStage.ts';
import { idleShare, type PipelinePlan } from '../../parallel/pipeline/schedules.ts';
import type { TrainingProgress } from '../../parallel/recovery/progress.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { JobSpec } from '../../spec/job.ts';
import { STATE_BYTES_PER_WEIGHT } from '../../spec/pipeline.ts';
import type { ThreadActivity } from '../../util/activity.ts';
import type { Clock } from '../../util/clock.ts';
import { DivergenceError, UsageError } from '../../util/errors.ts';
import type { RunState } from '../storage/runState.ts';
import type { HeldOutTask } from '../tasks/evaluation.ts';
import { compareDataHashes } from '../training/data/compareDataHashes.ts';
import { ContentComparison } from '../training/data/compareContents.ts';
import type { PlannedStep, RankStep, RankStepOutcome } from '../training/rankStep.ts';
import { upcomingSamples } from '../training/data/sampleAssigner.ts';
import { RunProgress, type EnteringRankFacts, type ScheduledSamples } from '../training/runProgress.ts';
import { RunStats } from '../training/telemetry/runStats.ts';
import { agreeOnLayerCut } from './cutModel.ts';
import { HeldStages, type AgreedStageState } from './heldStages.ts';
import { PipelineGrid } from './pipelineGrid.ts';
import type { PipelineModel, PipelineTask } from './pipelineTask.ts';
import { receiveStageState } from './receiveStageState.ts';
import type { RunOutputs } from './stagedWorld.ts';

/** Milliseconds between two reports of passes. */
const PASS_REPORT_MS = 1000;

interface StageOptions {
  plan: JobSpec;
  task: PipelineTask;
  clock: Clock;
  /** Receives the run's events. If it returns a promise, the run waits for it. */
  emit: (event: EngineEvent) => void | Promise<void>;
  /** Throws if results of the device are invalid. */
  checkDevice: () => void;
  /** Names what this thread computes. */
  activity: ThreadActivity;
  /** Creates the storage of the copy of another rank's stage. */
  openMirrorStorage: OpenStageMirrorStorage;
  /** The memory of a tab for weights, gradients and averages, in bytes. */
  tabBytes: number;
  /** Files and texts of the run. */
  outputs: RunOutputs;
}

/** The agreement of the ranks of a world. */
interface Agreement {
  totals: ScheduledSamples['totals'];
  state: AgreedStageState;
  model: PipelineModel;
  grid: PipelineGrid;
  /** Number of layers of each stage; `null` if the model does not fit in the tabs. */
  cut: readonly number[] | null;
}

export class StageStep implements RankStep {
  readonly progress: RunProgress;
  readonly figures = new RunStats(() => this.#held.stage?.memoryBytes ?? 0);
  strategy: RankStep['strategy'] = {
    size: 0,
    gradientBytes: 0,
    bucketBytes: [],
    reportsAllRanks: true,
    isSynchronized: true,
    elastic: null,
  };
  readonly heldOut: HeldOutTask;
  readonly isWhole = false;
  readonly feed = null;
  readonly #options: StageOptions;
  readonly #dataHash: string;
  readonly #cursor: GlobalCursor;
  readonly #held = new HeldStages();
  readonly #comparison: ContentComparison | null;
  #agreement: Agreement | null = null;
  #busyMs = 0;
  #spanMs = 0;

  private constructor(options: StageOptions, dataHash: string) {
    const { plan, task } = options;
    this.#options = options;
    this.#dataHash = dataHash;
    this.#cursor = new GlobalCursor({ datasetSize: task.trainSamples, seed: plan.seed });
    this.progress = new RunProgress(plan, null);
    this.heldOut = this.#heldOutTask(task);
    this.#comparison = ContentComparison.of(task);
  }

  /** Prepares the run on this rank alone. */
  static async prepare(options: StageOptions): Promise<StageStep> {
    const { task, activity } = options;
    return new StageStep(options, await activity.during('hash the data', () => task.dataHash()));
  }

  /** The progress of the state. It is compared with the progress of other ranks. */
  get reached(): Pick<TrainingProgress, 'step' | 'appliedIn'> {
    const { step, appliedIn } = this.progress.now;
    return { step, appliedIn };
  }

  /** @throws (rejects) UsageError: no rank has the whole model. */
  snapshot(): Promise<RunState> {
    return Promise.reject(
      new UsageError(
        'A run with a pipeline cannot be saved, because no tab has the whole model. Choose the strategy ddp.',
      ),
    );
  }

  get samples(): ScheduledSamples {
    const { totals, grid } = this.#agreed;
    const { stepSamples } = grid;
    return {
      totals,
      assigner: {
        stepSamples,
        stepsLeft: (position, epochs) => this.#cursor.stepsLeft(position, epochs, stepSamples),
      },
    };
  }

  get passes(): PipelinePlan['passes'] {
    return this.#agreed.grid.plan.passes;
  }

  /**
   * Agrees with the ranks of a world on the data and on one state, and cuts the model into stages.
   *
   * @throws (rejects) UsageError if a new model cannot be cut.
   */
  async agree(group: ProcessGroup): Promise<readonly EnteringRankFacts[]> {
    const { plan, task, tabBytes } = this.#options;
    // With a large model, SYNCING takes longer than its usual timeout.
    group.timeoutMs = PIPELINE_TIMEOUT_MS;
    const totals = await compareDataHashes(group, task, { dataHash: this.#dataHash, isFresh: this.#held.isFresh });
    await this.#comparison?.enter(group, this.#held.isFresh);
    const model = task.createModel();
    const state = await this.#held.agree(group, this.progress.now, this.progress.isDue);
    const grid = await PipelineGrid.create(group, plan, model);
    const isNew = state.scalars === null;
    const cut = await agreeOnLayerCut(group, grid, model, { ...this.#options, maxBytes: tabBytes, isNew });
    this.#agreement = { totals, state, model, grid, cut };
    return state.ranks;
  }

  /** @throws (rejects) PeergradError if layers are lost. */
  async receive(group: ProcessGroup): Promise<string | null> {
    const { state, model, grid, cut } = this.#agreed;
    if (!cut) return null;
    const { step } = this.progress.now;
    const held = this.#held;
    const stateHash = await receiveStageState({ ...this.#options, group, grid, model, cut, agreed: state, held, step });
    const size = model.layers.reduce((sum, layer) => sum + layer.size, 0);
    const gradientBytes = size * Float32Array.BYTES_PER_ELEMENT;
    this.strategy = { ...this.strategy, size, gradientBytes, bucketBytes: [gradientBytes] };
    this.figures.enter(grid.bytesWith(group));
    [this.#busyMs, this.#spanMs] = [0, 0];
    return stateHash;
  }

  async entered(): Promise<void> {
    const { model, grid, cut } = this.#agreed;
    await this.#options.emit({
      type: 'pipeline',
      ranks: grid.stages,
      replicas: grid.replicas,
      microBatches: grid.microBatches,
      schedule: this.#options.plan.pipelineSchedule,
      ring: model.ring,
      layers: model.layers.map(({ name, size }) => ({ name, bytes: size * STATE_BYTES_PER_WEIGHT })),
      cut: [...cut!],
    });
  }

  begin(group: ProcessGroup): void {
    const { grid } = this.#agreed;
    // A rank waits for the passes of all other ranks.
    group.timeoutMs = PIPELINE_TIMEOUT_MS;
    const stateHash = (): Promise<string> => this.#held.hash(group, grid);
    this.#options.outputs.enter({ group, grid, stage: this.#held.stage, stateHash });
  }

  next(group: ProcessGroup): Promise<PlannedStep> {
    const { step, position } = this.progress.now;
    const window = this.#cursor.windowAt(position, this.#agreed.grid.stepSamples);
    const { epoch, offset, indices, next } = window;
    this.#readAhead(window);
    return Promise.resolve({
      epoch,
      offset,
      samples: indices.length,
      end: next,
      take: (learningRate, applied) => this.#take(group, step, learningRate, window, applied),
    });
  }

  async compare(group: ProcessGroup, exchange: (stateHash: string) => Promise<void>): Promise<void> {
    await this.#comparison?.compare(group);
    try {
      await exchange(await this.#held.hash(group, this.#agreed.grid));
    } catch (error) {
      const isDivergent = error instanceof DivergenceError && error.context.divergent?.includes(group.rank);
      // In the next world, this rank receives its layers from other ranks.
      if (isDivergent) this.#held.dispose();
      throw error;
    }
  }

  async outcome(group: ProcessGroup): ReturnType<RankStep['outcome']> {
    const { grid } = this.#agreed;
    const texts = await this.#options.outputs.finish(this.progress.now.step);
    const layers = this.#held.stage?.layerNames ?? [];
    const ranks = await group.allGatherObject({ busyMs: this.#busyMs, spanMs: this.#spanMs, layers });
    const busy = ranks.reduce((sum, { busyMs }) => sum + busyMs, 0);
    const span = Math.max(...ranks.map(({ spanMs }) => spanMs)) * grid.stages * grid.replicas;
    return {
      pipeline: {
        stages: grid.stages,
        replicas: grid.replicas,
        microBatches: grid.microBatches,
        layers: ranks.map((rank) => rank.layers),
        idle: { measured: span > 0 ? 1 - busy / span : 0, plan: idleShare(grid.plan) },
      },
      ...texts,
    };
  }

  dispose(): void {
    this.#held.dispose();
  }

  get #agreed(): Agreement {
    return this.#agreement!;
  }

  /** Lets the task read the samples of this replica's next step, and of those that follow it. */
  #readAhead({ indices, next }: SampleWindow): void {
    const { task, plan } = this.#options;
    const { grid } = this.#agreed;
    const { ahead = 0 } = task;
    if (ahead === 0 || !grid.usesSamples) return;
    const steps = this.progress.totalSteps(this.samples) - this.progress.now.step - 1;
    const most = Math.min(ahead, steps * plan.batchSize * grid.stages);
    const following = upcomingSamples(next, most, (at) => {
      const window = this.#cursor.windowAt(at, grid.stepSamples);
      return { indices: grid.shareOf(window.indices), next: window.next };
    });
    task.expect?.([...grid.shareOf(indices), ...following]);
  }

  /**
   * Takes a step. Computes the passes of this rank's stage, and exchanges gradients with the ranks
   * that have the same layers.
   */
  async #take(
    group: ProcessGroup,
    step: number,
    learningRate: number,
    { indices, epoch }: SampleWindow,
    applied: (loss: number, samples: number) => void,
  ): Promise<RankStepOutcome> {
    const { clock, emit, plan, checkDevice, outputs, activity } = this.#options;
    const { grid } = this.#agreed;
    const { stage } = this.#held;
    const startedAt = clock.now();
    let reportedAt = startedAt;
    const onpass = (): void => {
      if (clock.now() - reportedAt < PASS_REPORT_MS) return;
      reportedAt = clock.now();
      void emit({ type: 'pass', step });
    };
    const during = (pass: () => Promise<void>): Promise<void> => activity.during(`step ${step}`, pass);
    const learned = stage
      ? await stage.learn(grid.shareOf(indices), { step, epoch }, indices.length, { onpass, during })
      : null;
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
    applied(loss, indices.length);
    this.figures.countBytes();
    const passes = learned?.passes ?? [];
    const compute = passes.reduce((sum, { start, end }) => sum + end - start, 0);
    this.#busyMs += compute;
    this.#spanMs += computedAt - startedAt;
    const data = learned?.data ?? 0;
    const exposed = reducedAt - startedAt - compute - data;
    return {
      report: {
        loss,
        samples: indices.length,
        traces: [],
        compute,
        readback: 0,
        communicate: exposed,
        exposed,
        update: clock.now() - reducedAt,
      },
      data,
      pipeline: { passes, exchangedAt: computedAt },
      after: () => outputs.applied(step + 1, loss, queries),
    };
  }

  /**
   * Returns the task for evaluations, in which the ranks of a replica evaluate the same samples
   * together.
   */
  #heldOutTask(task: PipelineTask): HeldOutTask {
    const { testSamples, classifies, classes, score, ahead } = task;
    const grid = (): PipelineGrid => this.#agreed.grid;
    return {
      testSamples,
      classifies,
      classes,
      score,
      ahead,
      expectHeldOut: (next) => {
        if (grid().usesSamples) task.expectHeldOut?.(next);
      },
      get testBatch() {
        const { rows, microBatches } = grid();
        return rows * microBatches;
      },
      get share() {
        const { replica, replicas, stage, stages } = grid();
        // A rank without a stage evaluates and counts no samples.
        return { index: replica ?? 0, of: replicas, counts: stage === stages - 1 };
      },
      evaluate: async (indices) => (await this.#held.stage?.evaluate(indices)) ?? { lossSum: 0, correct: 0 },
    };
  }
}
