/**
 * One run of a task: prepare it on this rank alone (compile), enter a world (agree), then step
 * after step to the end, by the strategy that was chosen. A world is a generation's process group;
 * one that ends early is followed by another, in which an elastic strategy goes on: what was
 * applied stays, and every sample of a pass counts once. What it does is told in events; what it
 * computes with is TensorFlow.js's current backend.
 */
import { Mesh } from '../../collectives/mesh.ts';
import { ProcessGroup } from '../../collectives/processGroup.ts';
import { createOptimizer } from '../../optim/index.ts';
import { findRate, hasExploded } from '../../optim/rangeTest.ts';
import { rateAt } from '../../optim/schedule.ts';
import { currentGradients, type RetainedGradient } from '../../parallel/recovery/sampleReassignment.ts';
import { keepingBuffers } from '../../parallel/ddp/flatten.ts';
import { allGatherHashes } from '../../parallel/recovery/hashes.ts';
import { ScheduledOptimizer } from '../../parallel/strategies/scheduledOptimizer.ts';
import type { Pass, PassOptions } from '../../parallel/ddp/pass.ts';
import {
  advance,
  isRunOver,
  judge,
  shareOfTime,
  startOfRun,
  type Progress,
  type RunBounds,
} from '../../parallel/recovery/progress.ts';
import {
  createStrategy,
  Ring,
  type Arrival,
  type RingState,
  type StepReport,
} from '../../parallel/strategies/index.ts';
import type { Device } from '../../protocol/room.ts';
import type { BucketChoice, CodecChoice, RunResult } from '../../protocol/runResult.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { RankStatistics } from '../../protocol/runEvents.ts';
import type { StepTimes } from '../../protocol/stepTrace.ts';
import type { FlightRecording } from '../../protocol/flightRecording.ts';
import { isElastic, type JobCodec } from '../../spec/job.ts';
import type { TrainingPlan } from '../../spec/plan.ts';
import type { ShardFacts } from '../../spec/dataFacts.ts';
import type { Vocabulary } from '../../spec/vocabulary.ts';
import type { Clock } from '../../util/clock.ts';
import { DivergenceError, MismatchError, PeergradError, UsageError } from '../../util/errors.ts';
import { hashState } from '../../util/hash.ts';
import { dissenters } from '../../util/majority.ts';
import { Yielder } from '../../util/yielder.ts';
import { compareData } from './compareData.ts';
import { dutiesAfter, joined, NO_DUTIES, testHeldOut, testInterval, type Duties, type Tested } from './evaluation.ts';
import { RunStats } from './runStats.ts';
import { StepLosses } from './stepLosses.ts';
import { StepTelemetry } from './stepTelemetry.ts';
import type { Task } from '../tasks/task.ts';
import { PartitionedDataAssigner } from './partitionedDataAssigner.ts';
import { ReplicatedDataAssigner } from './replicatedDataAssigner.ts';
import type { SampleAssigner, StepAssignment } from './sampleAssigner.ts';

/** DiLoCo's outer optimizer, as the paper found best. */
const OUTER_OPTIMIZER = { learningRate: 0.7, momentum: 0.9 };

/**
 * How many steps a run is taken for whose time has a bound, to choose when held-out samples are
 * tested.
 */
const TIMED_STEPS = 400;

/**
 * Milliseconds of work between two turns of timers and messages: a rank that is not heard of for
 * seconds is held to be gone.
 */
const YIELD_MS = 200;

interface TrainingLoopOptions {
  plan: TrainingPlan;
  task: Task;
  device: Device;
  clock: Clock;
  /** May be asynchronous: the run waits for it. */
  emit: (event: EngineEvent) => void | Promise<void>;
  /** Throws if the device's results are void. */
  checkDevice: () => void;
  /**
   * Copies the model, which has tested best so far; is waited for. Asked in runs that end when they
   * get no better.
   */
  keepBest?: () => Promise<void>;
  /** Whether this rank's page is hidden; by default nobody hides it. */
  isHidden?: () => boolean;
}

/** All that it takes to go on from the last step that was applied, in whatever world. */
export interface RunState {
  progress: Progress;
  ring: RingState;
  /**
   * Facts of the data where these are files; those that ranks agreed on where each has its own. The
   * run itself does not read them.
   */
  agreed?: ShardFacts;
  /** Of a language model, whose task is made by it. */
  vocabulary?: Vocabulary;
}

/** Where a run takes place for a while. */
interface World {
  group: ProcessGroup;
  /** How the ranks are linked, for the result. */
  transport: RunResult['transport'];
  signal: AbortSignal;
}

/** What ranks tell each other on entering a world, beside their state. */
interface Note {
  retained: RetainedGradient | null;
  /** Whether something is left to do after its last step. */
  isDue: boolean;
}

type AnyStrategy = Awaited<ReturnType<typeof createStrategy>>;

export class TrainingLoop {
  readonly #options: TrainingLoopOptions;
  readonly #strategy: AnyStrategy;
  /** All that the strategy has made, to be told the rate of a step. */
  readonly #rules: readonly ScheduledOptimizer[];
  readonly #dataHash: string;
  readonly #progress = startOfRun();
  readonly #bounds: RunBounds;
  readonly #figures = new RunStats();
  readonly #telemetry: StepTelemetry;
  readonly #yielder: Yielder;
  readonly #losses: StepLosses;
  #world: World | null = null;
  #sampleAssigner: SampleAssigner | null = null;
  /** Samples of all ranks together. */
  #samples = { train: 0, test: 0 };
  /** Of the next step, once it is dealt out. */
  #assignment: StepAssignment | null = null;
  #due: Duties = NO_DUTIES;
  #statistics: RankStatistics[] = [];
  #hashes: string[] = [];
  /** Of the latest test. */
  #tested: Tested | null = null;
  /** Of a range test, on ranks that were there from the first step on: what it leaves behind. */
  #untrained: RingState | null = null;
  /** The codec that ranks have chosen in this world, and why. */
  #choice: CodecChoice | null = null;
  #bucketChoice: BucketChoice | null = null;
  #worlds = 0;
  #startedAt: number | null = null;
  /**
   * When this rank last told, or could have told, how long training takes; see {@link
   * Progress.trainedMs}.
   */
  #clockedAt = 0;
  /** What rank 0 has told, until the step is applied. */
  #trainedMs = 0;

  private constructor(
    options: TrainingLoopOptions,
    strategy: AnyStrategy,
    rules: readonly ScheduledOptimizer[],
    dataHash: string,
  ) {
    this.#options = options;
    this.#strategy = strategy;
    this.#rules = rules;
    this.#dataHash = dataHash;
    const { plan, clock, isHidden = () => false } = options;
    this.#yielder = new Yielder(clock, YIELD_MS);
    this.#losses = new StepLosses(this.#isRangeTest);
    this.#telemetry = new StepTelemetry(clock, isHidden);
    // Few data are gone through as often as the steps of a range test need, which tests no samples.
    this.#bounds = this.#isRangeTest ? { ...plan, epochs: Infinity, patience: null } : plan;
  }

  /**
   * Makes the run ready on this rank alone, and compiles its shaders, so that the first step is
   * like any other.
   *
   * @param from a state to go on from, of the same task and plan; `model`: the task's model is as
   *   all are to begin, whatever rank this is.
   * @throws (rejects) UsageError where there is nothing to train, or a state for a strategy that is
   *   not elastic; MismatchError where it is of another model.
   */
  static async prepare({
    from = null,
    ...options
  }: TrainingLoopOptions & { from?: RunState | 'model' | null }): Promise<TrainingLoop> {
    const { plan, task, emit, clock, checkDevice } = options;
    const { optimizer, learningRate, weightDecay, clipNorm } = plan;
    const decay = weightDecay === null ? {} : { weightDecay };
    const rules: ScheduledOptimizer[] = [];
    const dataHash = await task.dataHash();
    const alone = new ProcessGroup(new Mesh({ rank: 0, worldSize: 1, generation: 0, links: new Map() }), { clock });
    const strategy = await createStrategy(plan, {
      ...{ model: task.model, group: alone, clock, checkGradients: checkDevice },
      createOptimizer: (size) => {
        const rule = new ScheduledOptimizer(createOptimizer(optimizer, { learningRate, ...decay }, size), clipNorm);
        rules.push(rule);
        return rule;
      },
      createOuterOptimizer: (size) => createOptimizer('nesterov', OUTER_OPTIMIZER, size),
    });
    try {
      const run = new TrainingLoop(options, strategy, rules, dataHash);
      await emit({ type: 'warmup', stage: 'compiling', message: 'Compiling the model for this GPU' });
      await run.#warmUp();
      if (from === 'model') {
        run.#ring('begun with a file');
        run.#load(await run.snapshot());
      } else if (from) run.#load(from);
      return run;
    } catch (error) {
      strategy.dispose();
      throw error;
    }
  }

  /** Steps that were applied. */
  get steps(): number {
    return this.#progress.step;
  }

  /** How far its state is, for comparing it with others'. */
  get reached(): Pick<Progress, 'step' | 'appliedIn'> {
    const { step, appliedIn } = this.#progress;
    return { step, appliedIn };
  }

  /**
   * Digest of what the strategy keeps equal: the same on all ranks while they are synchronized, or
   * something is wrong.
   */
  stateHash(): string {
    return hashState(this.#strategy.state());
  }

  /**
   * Copies of all that it takes to go on from the last step that was applied when it is called.
   *
   * @throws (rejects) UsageError for a strategy that is not elastic.
   */
  async snapshot(): Promise<RunState> {
    const progress = structuredClone(this.#progress);
    return { progress, ring: await this.#ring('saved').snapshot() };
  }

  /**
   * Agrees with the ranks of a world: on the data and the model, on one state, and on who computes
   * what of the next step. Every rank must call it. With an elastic strategy it may be called again
   * for each later world, whatever the end of the one before; with the others once.
   *
   * @returns what all ranks have now.
   * @throws (rejects) where data or models differ from those of most ranks, DataError or
   *   MismatchError on the ranks that do, PeergradError on the others, with `context.odd`;
   *   PeergradError where the strategy cannot go on in another world; what the collectives reject
   *   with, and the reason of `signal`.
   */
  async enter(world: World): Promise<{ step: number; stateHash: string }> {
    const { group, signal } = world;
    const { plan } = this.#options;
    const strategy = this.#strategy;
    signal.throwIfAborted();
    if (this.#worlds > 0 && !isElastic(plan)) {
      throw new PeergradError(
        `Ranks have come or gone, and the strategy ${plan.strategy} cannot go on without those it began with: start again, or ` +
          'choose ddp.',
        { rank: group.rank, worldSize: group.worldSize },
      );
    }
    const assigner = await this.#shareData(group);
    let arrivals: Arrival<Note>[] = [];
    if (strategy instanceof Ring) {
      strategy.rollBack();
      const { samples, comparison } = this.#due;
      const isDue = samples > 0 || comparison;
      const retained = assigner.retainedGradient(strategy);
      arrivals = await strategy.attach(group, this.#progress, { retained, isDue });
      this.#assignment = this.#isThrough
        ? null
        : assigner.reassign(this.#progress.position, strategy, currentGradients(arrivals));
    } else {
      await strategy.attach(group);
    }
    this.#world = world;
    this.#figures.enter(group);
    this.#telemetry.enter(group);
    this.#worlds += 1;
    this.#clockedAt = this.#options.clock.now();
    this.#choice = null;
    this.#bucketChoice = null;
    const progress = this.#progress;
    if (progress.evaluateEvery === 0) {
      const steps = plan.maxMinutes === null ? this.#totalSteps : Math.min(this.#totalSteps, TIMED_STEPS);
      progress.evaluateEvery = testInterval(this.#samples, plan, assigner.stepSamples, steps);
    }
    if (this.#isRangeTest && progress.step === 0) this.#untrained = await this.#ring('tested').snapshot();
    this.#due = this.#isAnyoneDue(arrivals) ? this.#dutiesNow : NO_DUTIES;
    await this.#tellModel();
    return { step: progress.step, stateHash: this.stateHash() };
  }

  /**
   * Takes all steps that are left in the world that was entered. Every rank resolves with the same
   * figures but for times that only it can know. After a rejection, however it came, an elastic
   * strategy goes on exactly where it was, in the next world; after the last step, only what is
   * left to test and to compare is done.
   *
   * @throws (rejects) DeviceError, DivergenceError where states differ (MismatchError for a
   *   strategy that is not elastic), what the collectives reject with, and the reason of `signal`.
   */
  async run(): Promise<RunResult> {
    const { clock } = this.#options;
    const { signal } = this.#here;
    this.#startedAt ??= clock.now();
    this.#figures.skipBytes();
    for (;;) {
      await this.#doDuties();
      if (this.#isOver) return this.#result(clock.now() - this.#startedAt);
      signal.throwIfAborted();
      await this.#takeStep(this.#startedAt);
      await this.#yielder.yieldIfDue();
    }
  }

  /** What the flight recorder keeps of the last steps. */
  get recorded(): Pick<FlightRecording, 'traces' | 'lanes' | 'clocks'> {
    return this.#telemetry.recorded;
  }

  dispose(): void {
    this.#strategy.dispose();
  }

  get #here(): World {
    if (!this.#world) throw new UsageError('A run takes place in a world: call enter first.');
    return this.#world;
  }

  /** How gradients travel now. */
  get #codec(): JobCodec {
    if (this.#strategy instanceof Ring) return this.#strategy.codec;
    const { codec } = this.#options.plan;
    return codec === 'auto' ? 'fp32' : codec;
  }

  /** Whether it looks for a rate, and not for a model. */
  get #isRangeTest(): boolean {
    return this.#options.plan.schedule === 'range-test';
  }

  /** Whether held-out samples are tested at all. */
  get #tests(): boolean {
    return this.#samples.test > 0 && !this.#isRangeTest;
  }

  get #isOver(): boolean {
    return isRunOver(this.#progress, this.#bounds) || this.#hasExploded;
  }

  /**
   * Whether a range test has come to rates that are too high. All ranks know the same losses, so
   * all end after the same step.
   */
  get #hasExploded(): boolean {
    const { schedule, maxSteps } = this.#options.plan;
    return schedule === 'range-test' && hasExploded(this.#progress.losses, maxSteps!);
  }

  /**
   * Whether no step is left, whatever tests say. What ranks do about a test that they may have to
   * repeat goes by this: some have its outcome of the world before, and some have none.
   */
  get #isThrough(): boolean {
    return isRunOver(this.#progress, { ...this.#bounds, patience: null }) || this.#hasExploded;
  }

  /** Steps of the whole run, if the world stays as it is. */
  get #totalSteps(): number {
    const { step, position } = this.#progress;
    const left = this.#isOver ? 0 : this.#sampleAssigner!.stepsLeft(position, this.#bounds.epochs);
    return Math.min(step + left, this.#options.plan.maxSteps ?? Infinity);
  }

  /** @throws UsageError for a strategy that is not elastic. */
  #ring(done: string): Ring {
    if (this.#strategy instanceof Ring) return this.#strategy;
    throw new UsageError(
      `A run by the strategy ${this.#options.plan.strategy} cannot be ${done}, as ranks have state of their own: choose ddp.`,
    );
  }

  #load({ progress, ring }: RunState): void {
    this.#ring('gone on with').load(ring);
    Object.assign(this.#progress, structuredClone(progress));
    this.#trainedMs = progress.trainedMs;
    // What was still to be done then is not known: it changes nothing to do it again.
    this.#due = this.#dutiesNow;
  }

  /** Sees to it that samples can be dealt out. */
  async #shareData(group: ProcessGroup): Promise<SampleAssigner> {
    const { plan, task } = this.#options;
    const isFresh = !(this.#strategy instanceof Ring) || this.#strategy.isFresh;
    const { samples, train, test } = await compareData(group, task, { dataHash: this.#dataHash, isFresh });
    this.#samples = { train, test };
    if (this.#sampleAssigner) this.#sampleAssigner.enter(group, samples);
    else {
      const options = { group, samples, seed: plan.seed, batchSize: plan.batchSize };
      this.#sampleAssigner = task.isShard ? new PartitionedDataAssigner(options) : new ReplicatedDataAssigner(options);
    }
    return this.#sampleAssigner;
  }

  async #takeStep(startedAt: number): Promise<void> {
    const { clock, emit } = this.#options;
    const strategy = this.#strategy;
    const { step } = this.#progress;
    const assignment = (this.#assignment ??= this.#sampleAssigner!.assign(this.#progress.position));
    const { epoch, offset, size } = assignment.window;
    const samples = strategy.reportsAllRanks ? size : assignment.indices.length;
    await this.#pace();
    await emit({ type: 'begin', step, epoch, samples });
    const stepAt = clock.now();
    let report: StepReport;
    try {
      report = await this.#learn(assignment);
      if (this.#isOver) await strategy.synchronize();
    } finally {
      this.#figures.countBytes();
    }
    if (report.choice) {
      this.#choice = report.choice;
      await emit({ type: 'codec', step, choice: report.choice });
    }
    if (report.bucketChoice) {
      this.#bucketChoice = report.bucketChoice;
      await this.#tellModel();
    }
    const now = clock.now();
    const ms = timesOf(report, now - stepAt);
    this.#figures.took(ms);
    if (this.#tells(step)) {
      const { traces } = report;
      const { bucketBytes } = strategy;
      for (const event of this.#telemetry.took({ step, startedAt: stepAt, ms, traces, bucketBytes })) await emit(event);
    }
    const { loss } = report;
    await emit({ type: 'step', step, epoch, offset, loss, samples: report.samples, ms, at: now - startedAt });
  }

  /**
   * Settles the rate of the step to come. In a run whose time has a bound, rank 0 tells how long it
   * has gone on for, when all ranks agree: so all stop after the same step.
   */
  async #pace(): Promise<void> {
    const { clock, plan } = this.#options;
    const { group } = this.#here;
    const { step, trainedMs } = this.#progress;
    if (plan.maxMinutes !== null && this.#strategy.isSynchronized) {
      const now = clock.now();
      const told = Float64Array.of(trainedMs + now - this.#clockedAt);
      this.#clockedAt = now;
      await group.broadcast(told, group.ranks[0]!);
      this.#trainedMs = told[0]!;
      this.#figures.skipBytes();
    }
    const share = step / this.#totalSteps;
    const done = this.#isRangeTest ? share : Math.max(share, shareOfTime(this.#trainedMs, plan));
    const rate = rateAt(plan, step, Math.min(1, done));
    for (const rule of this.#rules) rule.learningRate = rate;
  }

  async #tellModel(): Promise<void> {
    const { emit } = this.#options;
    const { train: trainSamples, test: testSamples } = this.#samples;
    const { size, gradientBytes, bucketBytes } = this.#strategy;
    await emit({
      type: 'model',
      ...{ parameters: size, gradientBytes, bucketBytes: [...bucketBytes] },
      ...(this.#bucketChoice && { bucketChoice: this.#bucketChoice }),
      ...{ totalSteps: this.#totalSteps, trainSamples, testSamples },
    });
  }

  /** Learns from this rank's part of a step, in micro-batches where it is more than fits one. */
  async #learn({ window, indices, microBatches: rounds }: StepAssignment): Promise<StepReport> {
    const { task, plan } = this.#options;
    const strategy = this.#strategy;
    const todo = indices.slice(strategy instanceof Ring ? strategy.heldSamples : 0);
    const batches = Array.from({ length: rounds }, (_, i) =>
      todo.subarray(i * plan.batchSize, (i + 1) * plan.batchSize),
    );
    const last = batches.pop()!;
    const { step } = this.#progress;
    if (strategy instanceof Ring) {
      for (const batch of batches) {
        await task.withBatch(batch, (pass) => strategy.accumulate(pass, optionsOf(batch)), step);
      }
    }
    const take = (pass: Pass): Promise<StepReport> =>
      strategy.step(pass, { ...optionsOf(last), totalSamples: window.size }, ({ loss, samples }) => {
        const progress = this.#progress;
        advance(progress, this.#here.group.generation, window.next);
        progress.trainedMs = this.#trainedMs;
        if (strategy.reportsAllRanks) progress.losses.push(loss);
        else this.#losses.add(loss, samples);
        this.#due = joined(this.#due, this.#dutiesNow);
        this.#assignment = null;
      });
    return task.withBatch(last, take, step);
  }

  /** Whether more than the steps themselves is told now. */
  #tells(step: number): boolean {
    const { quietStretch } = this.#options.plan;
    return quietStretch === undefined || Math.floor(step / quietStretch) % 2 === 0;
  }

  get #dutiesNow(): Duties {
    return dutiesAfter(this.#progress, this.#options.plan, this.#isThrough);
  }

  /**
   * Whether a rank has duties left after the last step, or is late for them: then all do them,
   * again if need be.
   */
  #isAnyoneDue(arrivals: readonly Arrival<Note>[]): boolean {
    const { step } = this.#progress;
    // Who comes after the last step wants a result, too.
    if (this.#isOver) return true;
    return arrivals.some((one) => !one.isFresh && (one.step === step ? one.note.isDue : one.step === step - 1));
  }

  /** What is due, if all ranks agree now. */
  async #doDuties(): Promise<void> {
    if (!this.#strategy.isSynchronized) return;
    const { samples, comparison } = this.#due;
    const last = this.#progress.step - 1;
    await this.#losses.collect(this.#here.group, this.#progress.losses);
    if (samples > 0) await this.#evaluate(last, samples);
    if (this.#isRangeTest && this.#isOver) await this.#ring('tested').restore(this.#untrained);
    // A test may end the run.
    if (comparison || this.#isOver) await this.#compare(last);
    this.#due = NO_DUTIES;
    this.#figures.skipBytes();
  }

  /** Runs everything once, without a trace in the state. */
  async #warmUp(): Promise<void> {
    const { task, plan, checkDevice } = this.#options;
    const first = Uint32Array.from({ length: Math.min(plan.batchSize, task.trainSamples) }, (_, i) => i);
    await keepingBuffers(task.model, () =>
      task.withBatch(first, (pass) => this.#strategy.warmUp(pass, optionsOf(first)), 0),
    );
    if (task.testSamples > 0 && !this.#isRangeTest) await task.evaluate(new Uint32Array());
    checkDevice();
  }

  /** Loss and accuracy on the first held-out samples, at most `most`. */
  async #evaluate(step: number, most: number): Promise<void> {
    const { task, plan, emit, keepBest } = this.#options;
    if (!this.#tests) return;
    const held = this.#samples.test;
    const tell = async (done: number, share: number): Promise<void> => {
      await emit({ type: 'testing', step, done, share });
      await this.#yielder.yieldIfDue();
    };
    this.#tested = await testHeldOut(this.#here.group, task, Math.min(most, held), tell, held);
    if (plan.patience !== null && judge(this.#progress, this.#tested.loss)) await keepBest?.();
    const { confusion, ...tested } = this.#tested;
    await emit({ type: 'evaluation', step, ...tested });
    if (confusion) await emit({ type: 'confusion', step, ...confusion });
  }

  /** Compares state hashes, and tells statistics with them. */
  async #compare(step: number): Promise<void> {
    const { emit, plan } = this.#options;
    const { group } = this.#here;
    const hash = this.stateHash();
    // The result counts bytes, whatever was told before it.
    const told =
      this.#tells(step) || this.#isOver
        ? await this.#telemetry.exchange(hash, this.#figures.statistics(), plan.hashEvery)
        : null;
    const hashes = told?.hashes ?? (await allGatherHashes(group, hash));
    const dissenting = dissenters(hashes);
    this.#hashes = hashes;
    await emit({ type: 'hashes', step, hashes, agree: dissenting.length === 0 });
    if (dissenting.length > 0) {
      const differs = `After step ${step + 1} the state of rank ${dissenting.join(', ')} differs from the others'`;
      const reason = 'that machine computes wrongly or runs another version of the page.';
      const context = { rank: group.rank, worldSize: group.worldSize, step, divergent: dissenting };
      if (isElastic(plan)) throw new DivergenceError(`${differs}, and has to be replaced: ${reason}`, context);
      throw new MismatchError(`${differs}, so the run stopped: ${reason}`, context);
    }
    if (!told) return;
    this.#statistics = told.statistics;
    await emit({ type: 'ranks', step, ranks: told.statistics });
    await emit({ type: 'telemetry', step, ranks: told.ranks });
  }

  #result(ms: number): RunResult {
    const { device, plan } = this.#options;
    const { group, transport } = this.#here;
    const { step, position, verdicts } = this.#progress;
    // That which ends a range test may be none.
    const losses = this.#progress.losses.filter(Number.isFinite);
    const verdict = verdicts.at(-1);
    return {
      worldSize: group.worldSize,
      strategy: plan.strategy,
      codec: this.#codec,
      ...(this.#choice && { choice: this.#choice }),
      ...(this.#bucketChoice && { bucketChoice: this.#bucketChoice }),
      backend: device.backend,
      adapter: device.adapter,
      transport,
      steps: step,
      epochs: position.epoch + (position.offset > 0 ? 1 : 0),
      loss: losses.at(-1)!,
      accuracy: this.#tested?.accuracy ?? null,
      ...(this.#tested?.metrics && { metrics: this.#tested.metrics }),
      valLoss: this.#tested?.loss ?? null,
      ...(verdict && { best: { step: verdict.bestStep, valLoss: verdict.best } }),
      ...(this.#tested?.confusion && { confusion: this.#tested.confusion }),
      stateHash: this.#hashes,
      bytesSentPerRank: this.#statistics.map(({ gradientBytesSent }) => gradientBytesSent),
      bytesReceivedPerRank: this.#statistics.map(({ gradientBytesReceived }) => gradientBytesReceived),
      otherBytesSentPerRank: this.#statistics.map(({ otherBytesSent }) => otherBytesSent),
      gradientBytes: this.#strategy.gradientBytes,
      memoryBytesPerRank: this.#statistics.map(({ memoryBytes }) => memoryBytes),
      stepMs: this.#figures.stepMs,
      losses,
      ...(this.#isRangeTest && { rateTest: findRate(losses, plan.maxSteps!) }),
      restarts: this.#worlds - 1,
      ms,
    };
  }
}

/** Of a batch of samples `indices`, whose summed loss a task gives. */
function optionsOf({ length }: Uint32Array): PassOptions {
  return { samples: length, reduction: 'sum' };
}

function timesOf({ compute, readback, communicate, exposed, update }: StepReport, total: number): StepTimes {
  return { total, compute, readback, communicate, exposed, update };
}
