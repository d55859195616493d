/**
 * The training loop of one run. First the run is prepared and compiled on this rank alone. Then it
 * enters a world: all ranks agree on data and state. Then it takes step after step with the chosen
 * strategy. A world is the process group of a generation. If a world ends early, an elastic
 * strategy continues in the next world. Applied steps are kept. If all ranks have the same samples,
 * each sample of an epoch is used exactly once. Results are emitted as events.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { advance, type Progress } from '../../parallel/recovery/progress.ts';
import type { ElasticStrategy, StepReport } from '../../parallel/strategies/index.ts';
import type { Device } from '../../protocol/room.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { RunResult } from '../../protocol/runResult.ts';
import type { FlightRecording } from '../../protocol/flightRecording.ts';
import { isElastic } from '../../spec/job.ts';
import { whyPlanDoesNotFit, type TrainingPlan } from '../../spec/plan.ts';
import { Yielder, type Clock } from '../../util/clock.ts';
import { debugLog } from '../../util/debugLog.ts';
import { PeergradError, UsageError } from '../../util/errors.ts';
import { hashState } from '../../util/hash.ts';
import type { StateFeed } from '../../parallel/recovery/stateFeed.ts';
import { WholeStates } from '../storage/wholeStates.ts';
import type { Task } from '../tasks/task.ts';
import { feedOf } from './fedRun.ts';
import { LearningRate } from './learningRate.ts';
import { MethodTest } from './measuring/methodTest.ts';
import { RangeTest } from './measuring/rangeTest.ts';
import { RunDuties } from './runDuties.ts';
import { RunProgress } from './runProgress.ts';
import { RunSamples } from './data/runSamples.ts';
import { resultOf } from './runResult.ts';
import type { RunState } from '../storage/runState.ts';
import { createRunStrategy, type RunStrategy } from './runStrategy.ts';
import { supportsHalfPrecision } from '../../gpu/kernels/halfPrecision.ts';
import { GradScaler } from '../../parallel/backward/gradScaler.ts';
import { variablesOf } from '../../parallel/backward/flatten.ts';
import { PassCaptures } from '../../parallel/backward/passCaptures.ts';
import { learn, warmUp } from './data/stepPasses.ts';
import { countCommands } from './telemetry/countCommands.ts';
import { StepReporter } from './telemetry/stepReporter.ts';
import { WorkBalance } from './data/workBalance.ts';

/**
 * After this many milliseconds of work, the loop yields to timers and messages. A rank that sends
 * nothing for seconds is considered lost.
 */
const YIELD_MS = 200;

const log = debugLog('recovery');

interface TrainingLoopOptions {
  plan: TrainingPlan;
  task: Task;
  device: Device;
  clock: Clock;
  /** Receives the run's events. If it returns a promise, the run waits for it. */
  emit: (event: EngineEvent) => void | Promise<void>;
  /** Throws if results of the device are invalid. */
  checkDevice: () => void;
  /**
   * Copies the model when it has the best evaluation result so far. The run waits for it. Called
   * only in runs with `patience`.
   */
  keepBest?: () => Promise<void>;
  /** Returns whether this rank's page is hidden. By default it is never hidden. */
  isHidden?: () => boolean;
  /**
   * Returns whether this rank saves the next state on which ranks agree. By default it saves none.
   *
   * @param localRank place of this rank among the ranks of its browser.
   */
  savesState?: (localRank: number) => boolean;
}

/** The ranks with which a run currently trains. */
export interface TrainingWorld {
  group: ProcessGroup;
  /** The transport between the ranks. It is part of the result. */
  transport: RunResult['transport'];
  signal: AbortSignal;
}

export class TrainingLoop {
  readonly #options: TrainingLoopOptions;
  readonly #strategy: RunStrategy;
  readonly #gradScaler: GradScaler | null;
  readonly #captures: PassCaptures | null;
  readonly #samples: RunSamples;
  readonly #balance: WorkBalance;
  readonly #rangeTest: RangeTest | null;
  readonly #methodTest: MethodTest | null;
  readonly #run: RunProgress;
  readonly #rate: LearningRate;
  readonly #reporter: StepReporter;
  readonly #yielder: Yielder;
  readonly #wholeStates: WholeStates | null;
  readonly #duties: RunDuties;
  /** Gives newcomers the state beside the training; `null` if no rank has the whole state. */
  readonly feed: StateFeed | null;
  #world: TrainingWorld | null = null;
  #worlds = 0;
  #startedAt: number | null = null;

  private constructor(options: TrainingLoopOptions, strategy: RunStrategy, dataHash: string) {
    const { plan, clock, emit, isHidden = () => false, savesState = () => false } = options;
    this.#options = options;
    this.#strategy = strategy;
    this.#gradScaler = plan.precision === 'mixed' && supportsHalfPrecision() ? new GradScaler() : null;
    const variables = variablesOf(options.task.model);
    this.#captures = PassCaptures.of(variables, (message) => void emit({ type: 'note', message }));
    this.#samples = new RunSamples(plan, options.task, dataHash);
    this.#balance = new WorkBalance({ ...options, strategy });
    this.#rangeTest = RangeTest.of(plan, strategy);
    this.#methodTest = MethodTest.of(options, variables.parameters);
    this.#run = new RunProgress(plan, this.#rangeTest);
    this.#rate = new LearningRate(plan, clock);
    this.#reporter = new StepReporter({ strategy, clock, isHidden, emit });
    this.#yielder = new Yielder(clock, YIELD_MS);
    this.#wholeStates =
      strategy.elastic &&
      new WholeStates({
        clock,
        strategy: strategy.elastic,
        isWanted: () => savesState(this.#here.group.localRank),
        snapshot: () => this.snapshot(),
      });
    this.#duties = new RunDuties({
      ...options,
      wholeStates: this.#wholeStates,
      strategy,
      synchronize: () => this.#synchronize(),
      run: this.#run,
      rangeTest: this.#rangeTest,
      reporter: this.#reporter,
      yielder: this.#yielder,
      stateHash: () => this.stateHash(),
    });
    this.feed = feedOf({
      ...options,
      strategy,
      progress: () => this.#progress,
      snapshot: () => this.snapshot(),
      load: (state) => this.#load(state),
    });
  }

  /**
   * Prepares the run on this rank alone. Compiles all shaders, so that the first step is as fast as
   * later steps.
   *
   * @param from a state of the same task and plan, from which the run continues. `model` means that
   *   the task's model is used as a state. Then all ranks start from this model, even if only one
   *   rank has it.
   * @throws (rejects) UsageError if there is nothing to train, or if `from` is used with a strategy
   *   that is not elastic; MismatchError if the state belongs to another model.
   */
  static async prepare({
    from = null,
    ...options
  }: TrainingLoopOptions & { from?: RunState | 'model' | null }): Promise<TrainingLoop> {
    const dataHash = await options.task.dataHash();
    const strategy = await createRunStrategy(options.plan, options);
    try {
      const run = new TrainingLoop(options, strategy, dataHash);
      const { clock, emit } = options;
      const compiling = { type: 'warmup', stage: 'compiling', message: 'Compiling the model for this GPU' } as const;
      await emit(compiling);
      await warmUp({ ...options, strategy, gradScaler: run.#gradScaler }, options.plan.measure === null, {
        clock,
        onprogress: (shaders) => void emit({ ...compiling, shaders }),
      });
      options.checkDevice();
      if (from === 'model') {
        run.#elastic('started from a file');
        run.#load(await run.snapshot());
      } else if (from) run.#load(from);
      return run;
    } catch (error) {
      strategy.dispose();
      throw error;
    }
  }

  /** The number of applied steps. */
  get steps(): number {
    return this.#progress.step;
  }

  /** The progress of the state. It is compared with the progress of other ranks. */
  get reached(): Pick<Progress, 'step' | 'appliedIn'> {
    const { step, appliedIn } = this.#strategy.elastic?.committed(this.#progress) ?? this.#progress;
    return { step, appliedIn };
  }

  /** Returns the hash of the state that the strategy keeps equal on all synchronized ranks. */
  stateHash(): string {
    return hashState(this.#strategy.state());
  }

  /** Whether this rank has the whole state; see {@link snapshot}. */
  get isWhole(): boolean {
    return this.#strategy.elastic?.isWhole ?? false;
  }

  /**
   * Resolves with a copy of the state after the latest committed step.
   *
   * @param kind `own`: what this rank has. With a sharded optimizer, it is the whole state only if
   *   {@link isWhole}. `whole`: the whole state, when this rank has it.
   * @throws (rejects) UsageError if the strategy is not elastic; as {@link WholeStates.request}.
   */
  async snapshot(kind: 'own' | 'whole' = 'own'): Promise<RunState> {
    if (kind === 'whole' && this.#wholeStates) return this.#wholeStates.request();
    const elastic = this.#elastic('saved');
    const progress = structuredClone(elastic.committed(this.#progress));
    return { progress, replica: await elastic.snapshot() };
  }

  /**
   * Agrees with the ranks of a world on the data, the model, one state, and the samples of the next
   * step. Every rank must call it. With an elastic strategy it may be called again for each later
   * world, no matter how the previous world ended. With other strategies it may be called only
   * once.
   *
   * @returns the state that all ranks have now.
   * @throws (rejects) DataError or MismatchError on ranks whose data or model differs from most
   *   ranks. Then the other ranks reject with PeergradError, with `context.divergent`.
   *   PeergradError if the strategy cannot continue in another world. Also rejects with the errors
   *   of the collectives and the reason of `signal`.
   */
  async enter(world: TrainingWorld): Promise<{ step: number; stateHash: string }> {
    const { group, signal } = world;
    const { plan } = this.#options;
    const strategy = this.#strategy;
    signal.throwIfAborted();
    if (this.#worlds > 0 && !isElastic(plan)) {
      throw new PeergradError(
        `Ranks have joined or left, and the strategy ${plan.strategy} cannot continue with other ranks. Start again, or ` +
          'choose the strategy ddp.',
        { rank: group.rank, worldSize: group.worldSize },
      );
    }
    // The world size may have changed to one that cannot run the plan's algorithm.
    if (plan.algorithm !== 'auto') {
      group.algorithm = whyPlanDoesNotFit(plan, group.worldSize) === null ? plan.algorithm : 'ring';
    }
    await this.#samples.share(group, strategy.elastic?.isFresh ?? true);
    if (strategy.elastic === null) await strategy.attach(group);
    const arrivals = strategy.elastic
      ? await this.#samples.attach(strategy.elastic, group, this.#run, this.#duties.isDue)
      : [];
    this.#world = world;
    this.#reporter.enter(group);
    this.#worlds += 1;
    this.#rate.enter();
    this.#duties.schedule(this.#samples);
    if (this.steps === 0) await this.#rangeTest?.keep();
    this.#duties.enter(arrivals);
    await this.#reporter.emitModel(this.#samples.totals, this.#totalSteps);
    await this.#balance.enter(group, this.steps);
    return { step: this.steps, stateHash: this.stateHash() };
  }

  /**
   * Takes all remaining steps in the current world. Every rank resolves with the same result,
   * except for times, the device and `restarts`, and except for the algorithm of a rank that has
   * taken no step. After a rejection, an elastic strategy can continue in the next world from the
   * same step. If the final step was already applied, only the remaining evaluations and
   * comparisons are done.
   *
   * @throws (rejects) DeviceError if the GPU fails; DivergenceError if states differ and the
   *   strategy is elastic; MismatchError if states differ and the strategy is not elastic. Also
   *   rejects with the errors of the collectives and the reason of `signal`.
   */
  async run(): Promise<RunResult> {
    const { clock } = this.#options;
    const { group, signal } = this.#here;
    this.#startedAt ??= clock.now();
    this.#reporter.figures.skipBytes();
    for (;;) {
      if (this.#run.isOver) {
        await this.#synchronize();
        await this.#methodTest?.compare(group, this.#reporter.figures);
      }
      await this.#duties.fulfil(group, this.#samples.totals.test);
      if (this.#run.isOver) return this.#result(clock.now() - this.#startedAt);
      signal.throwIfAborted();
      await this.#takeStep(this.#startedAt);
      await this.#yielder.yieldIfDue();
    }
  }

  /** Traces, lanes and clocks of the latest steps, for the flight recorder. */
  get recorded(): Pick<FlightRecording, 'traces' | 'lanes' | 'clocks'> {
    return this.#reporter.telemetry.recorded;
  }

  dispose(): void {
    this.#wholeStates?.dispose();
    this.#strategy.dispose();
    this.#gradScaler?.dispose();
    this.#captures?.dispose();
  }

  get #progress(): Progress {
    return this.#run.now;
  }

  get #here(): TrainingWorld {
    if (!this.#world) throw new UsageError('The run has no world yet. Call enter first.');
    return this.#world;
  }

  get #totalSteps(): number {
    return this.#run.totalSteps(this.#samples.assigner);
  }

  /** @throws UsageError if the strategy is not elastic. */
  #elastic(done: string): ElasticStrategy {
    if (this.#strategy.elastic) return this.#strategy.elastic;
    throw new UsageError(
      `A run with the strategy ${this.#options.plan.strategy} cannot be ${done}, because not every rank has the whole state. Choose the strategy ddp.`,
    );
  }

  #load({ progress, replica }: Pick<RunState, 'progress'> & Partial<RunState>): void {
    if (replica) this.#elastic('resumed').load(replica);
    Object.assign(this.#progress, structuredClone(progress));
    this.#rate.trainedMs = progress.trainedMs;
    this.#duties.load();
  }

  async #takeStep(runStartedAt: number): Promise<void> {
    const { clock, emit, plan, task } = this.#options;
    const { group } = this.#here;
    const strategy = this.#strategy;
    const { figures } = this.#reporter;
    const { step } = this.#progress;
    if (await this.#balance.update(step)) figures.skipBytes();
    if (await this.#methodTest?.waitForRanks(group, step)) figures.skipBytes();
    const assignment = this.#samples.next(this.#progress.position, this.#balance.shares);
    const { epoch, offset, size } = assignment.window;
    const samples = strategy.reportsAllRanks ? size : assignment.indices.length;
    if (plan.maxMinutes !== null && strategy.isSynchronized) {
      await this.#rate.measure(group, this.#progress.trainedMs);
      figures.skipBytes();
    }
    const learningRate = this.#rate.at(step, this.#totalSteps);
    await emit({ type: 'begin', step, epoch, samples });
    const startedAt = clock.now();
    const commandsSince = countCommands();
    let report: StepReport;
    try {
      const learner = { task, strategy, gradScaler: this.#gradScaler, captures: this.#captures, clock, learningRate };
      const learned = await learn(learner, step, assignment, (loss, lossSamples) => {
        advance(this.#progress, group.generation, assignment.window.next);
        log(() => `Rank ${group.rank}, generation ${group.generation}, commits step ${this.#progress.step}.`);
        this.#progress.trainedMs = this.#rate.trainedMs;
        this.#duties.applied(loss, lossSamples);
        this.#samples.clear();
        this.feed?.applied();
      });
      this.#balance.took(learned.own);
      report = learned.report;
    } finally {
      figures.countBytes();
    }
    await this.#reporter.took({ step, epoch, offset, startedAt, runStartedAt, commands: commandsSince() }, report);
  }

  /** Lets the strategy make all ranks' parameters equal at the end of the run. */
  async #synchronize(): Promise<void> {
    const { group } = this.#here;
    const before = group.bytesSent;
    await this.#strategy.synchronize();
    if (group.bytesSent > before) this.#reporter.figures.countBytes();
  }

  #result(ms: number): RunResult {
    const { group, transport } = this.#here;
    return resultOf(
      {
        ...this.#options,
        progress: this.#progress,
        strategy: this.#strategy,
        reporter: this.#reporter,
        ...this.#duties.outcome,
        rangeTest: this.#rangeTest,
        methodTest: this.#methodTest,
        shares: this.#balance.outcome,
      },
      { worldSize: group.worldSize, transport, restarts: this.#worlds - 1, ms },
    );
  }
}
