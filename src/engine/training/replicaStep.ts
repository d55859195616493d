/**
 * The steps of a rank that has the whole model. The rank computes gradients of its own samples, and
 * the run's strategy combines them with those of the other ranks.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { supportsHalfPrecision } from '../../gpu/kernels/halfPrecision.ts';
import { GradScaler } from '../../parallel/backward/gradScaler.ts';
import { variablesOf } from '../../parallel/backward/flatten.ts';
import type { Pass } from '../../parallel/backward/pass.ts';
import { PassCaptures } from '../../parallel/backward/passCaptures.ts';
import type { TrainingProgress } from '../../parallel/recovery/progress.ts';
import type { StateFeed } from '../../parallel/recovery/stateFeed.ts';
import type { ElasticStrategy } from '../../parallel/strategies/index.ts';
import type { ReportedDevice } from '../../protocol/room.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import { isElasticJob } from '../../spec/job.ts';
import { whyPlanCannotRun, type TrainingPlan } from '../../spec/plan.ts';
import type { Clock } from '../../util/clock.ts';
import { PeergradError, UsageError } from '../../util/errors.ts';
import { hashOfArrays } from '../../util/hash.ts';
import { tensorMemoryBytes } from '../device/memory.ts';
import type { RunState } from '../storage/runState.ts';
import { WholeStateRequests } from '../storage/wholeStateRequests.ts';
import type { SampleTextWriter } from '../tasks/sampleTextWriter.ts';
import type { TrainingTask } from '../tasks/task.ts';
import { RunSampleAssignment } from './data/runSampleAssignment.ts';
import type { StepAssignment } from './data/sampleAssigner.ts';
import { WorkBalance, type MeasuredPass } from './data/workBalance.ts';
import { stateFeedOf } from './fedRun.ts';
import { MethodTest } from './measuring/methodTest.ts';
import { RangeTest } from './measuring/rangeTest.ts';
import type { PlannedStep, RankStep, RankStepOutcome } from './rankStep.ts';
import { RunProgress, type EnteringRankFacts } from './runProgress.ts';
import { createRunStrategy, type RunStrategy } from './runStrategy.ts';
import { RunStats } from './telemetry/runStats.ts';
import { passOptions, warmUpPasses } from './warmUp.ts';

interface ReplicaOptions {
  plan: TrainingPlan;
  task: TrainingTask;
  device: ReportedDevice;
  clock: Clock;
  emit: (event: EngineEvent) => void | Promise<void>;
  /** Throws if results of the device are invalid. */
  checkDevice: () => void;
  /** Texts that a language model writes during the run. */
  texts?: Pick<SampleTextWriter, 'applied' | 'finish'> | null;
  /**
   * Returns whether this rank saves the next state on which ranks agree. By default it saves none.
   *
   * @param localRank place of this rank among the ranks of its browser.
   */
  savesState?: (localRank: number) => boolean;
}

export class ReplicaStep implements RankStep {
  readonly strategy: RunStrategy;
  readonly progress: RunProgress;
  readonly figures = new RunStats(tensorMemoryBytes);
  readonly samples: RunSampleAssignment;
  readonly heldOut: TrainingTask;
  readonly passes = null;
  readonly dataHash: string;
  /** Gives newcomers the state while the run trains; `null` if no rank has the whole state. */
  readonly feed: StateFeed | null;
  readonly #options: ReplicaOptions;
  readonly #gradScaler: GradScaler | null;
  readonly #captures: PassCaptures | null;
  readonly #balance: WorkBalance;
  readonly #rangeTest: RangeTest | null;
  readonly #methodTest: MethodTest | null;
  readonly #wholeStates: WholeStateRequests | null;
  #hasEntered = false;

  private constructor(options: ReplicaOptions, strategy: RunStrategy, dataHash: string) {
    const { plan, task, clock, emit } = options;
    const { elastic } = strategy;
    this.#options = options;
    this.strategy = strategy;
    this.dataHash = dataHash;
    this.heldOut = task;
    this.#gradScaler = plan.precision === 'mixed' && supportsHalfPrecision() ? new GradScaler() : null;
    const variables = variablesOf(task.model);
    this.#captures = PassCaptures.of(variables, (message) => void emit({ type: 'note', message }));
    this.samples = new RunSampleAssignment(plan, task, dataHash);
    this.#balance = new WorkBalance({ ...options, strategy });
    this.#rangeTest = RangeTest.of(plan, strategy);
    this.#methodTest = MethodTest.of(options, variables.parameters);
    this.progress = new RunProgress(plan, this.#rangeTest);
    this.#wholeStates =
      elastic && new WholeStateRequests({ clock, strategy: elastic, snapshot: () => this.snapshot() });
    this.feed = stateFeedOf(this, options);
  }

  /**
   * Prepares the run on this rank alone. Compiles all shaders, so that the first step is as fast as
   * later steps.
   *
   * @param from a state of the same task and plan, from which the run continues. `model` means that
   *   the task's model is used as a state. Then all ranks start from this model, even if only one
   *   rank has it.
   * @throws (rejects) UsageError if there is nothing to train, or if `from` is used with a strategy
   *   that is not elastic; MismatchError if the state belongs to a different model.
   */
  static async prepare({
    from = null,
    ...options
  }: ReplicaOptions & { from?: RunState | 'model' | null }): Promise<ReplicaStep> {
    const dataHash = await options.task.dataHash();
    const strategy = await createRunStrategy(options.plan, options);
    let replica: ReplicaStep | null = null;
    try {
      replica = new ReplicaStep(options, strategy, dataHash);
      const { clock, emit } = options;
      const compiling = {
        type: 'warmup',
        stage: 'compiling',
        message: 'Preparing the model for its first step',
      } as const;
      await emit(compiling);
      await warmUpPasses(
        { ...options, strategy, gradScaler: replica.#gradScaler },
        { clock, onprogress: (shaders) => void emit({ ...compiling, shaders }) },
      );
      options.checkDevice();
      if (from === 'model') {
        replica.#elastic('started from a file');
        replica.load(await replica.snapshot());
      } else if (from) replica.load(from);
      return replica;
    } catch (error) {
      (replica ?? strategy).dispose();
      throw error;
    }
  }

  /** The progress of the state. It is compared with the progress of other ranks. */
  get reached(): Pick<TrainingProgress, 'step' | 'appliedIn'> {
    const { now } = this.progress;
    const { step, appliedIn } = this.strategy.elastic?.committed(now) ?? now;
    return { step, appliedIn };
  }

  /** Returns the hash of the state that the strategy keeps equal on all synchronized ranks. */
  stateHash(): string {
    return hashOfArrays(this.strategy.state());
  }

  /** Whether this rank has the whole state; see {@link snapshot}. */
  get isWhole(): boolean {
    return this.strategy.elastic?.isWhole ?? false;
  }

  /**
   * Resolves with a copy of the state after the latest committed step.
   *
   * @param kind `own`: the part that this rank has. With a sharded optimizer, this is the whole
   *   state only if {@link isWhole}. `whole`: the whole state, as soon as this rank has it.
   * @throws (rejects) UsageError if the strategy is not elastic, and the errors of
   *   {@link WholeStateRequests.request}.
   */
  async snapshot(kind: 'own' | 'whole' = 'own'): Promise<RunState> {
    if (kind === 'whole' && this.#wholeStates) return this.#wholeStates.request();
    const elastic = this.#elastic('saved');
    const progress = structuredClone(elastic.committed(this.progress.now));
    return { progress, replica: await elastic.snapshot() };
  }

  load({ progress, replica }: Pick<RunState, 'progress'> & Partial<RunState>): void {
    if (replica) this.#elastic('resumed').load(replica);
    this.progress.load(progress);
  }

  async agree(group: ProcessGroup): Promise<readonly EnteringRankFacts[]> {
    const { plan } = this.#options;
    const { strategy, samples, progress } = this;
    const { elastic } = strategy;
    if (this.#hasEntered && !isElasticJob(plan)) {
      throw new PeergradError(
        `Ranks have joined or left, and the strategy ${plan.strategy} cannot continue with other ranks. Start again, or ` +
          'choose the strategy ddp.',
        { rank: group.rank, worldSize: group.worldSize },
      );
    }
    // The plan's algorithm may be impossible with the new world size.
    if (plan.algorithm !== 'auto') {
      group.algorithm = whyPlanCannotRun(plan, group.worldSize) === null ? plan.algorithm : 'ring';
    }
    await samples.share(group, elastic?.isFresh ?? true);
    if (elastic === null) await strategy.attach(group);
    const ranks = elastic ? await samples.attach(elastic, group, progress) : [];
    this.#hasEntered = true;
    return ranks;
  }

  async receive(group: ProcessGroup): Promise<string> {
    if (this.progress.now.step === 0) await this.#rangeTest?.keep();
    this.figures.enter(group);
    return this.stateHash();
  }

  async entered(group: ProcessGroup): Promise<void> {
    await this.#balance.enter(group, this.progress.now.step);
  }

  async next(group: ProcessGroup): Promise<PlannedStep> {
    const { step, position } = this.progress.now;
    if (await this.#balance.update(step)) this.figures.skipBytes();
    if (await this.#methodTest?.waitForRanks(group, step)) this.figures.skipBytes();
    const assignment = this.samples.next(position, this.#balance.shares);
    const { epoch, offset, size, next } = assignment.window;
    const stepsLeft = this.progress.totalSteps(this.samples) - step - 1;
    this.samples.readAhead(assignment, this.#balance.shares, stepsLeft);
    return {
      epoch,
      offset,
      samples: this.strategy.reportsAllRanks ? size : assignment.indices.length,
      end: next,
      take: async (learningRate, applied) => {
        try {
          return await this.#take(step, learningRate, assignment, applied);
        } finally {
          this.figures.countBytes();
        }
      },
    };
  }

  async complete(group: ProcessGroup): Promise<void> {
    const before = group.bytesSent;
    await this.strategy.synchronize();
    if (group.bytesSent > before) this.figures.countBytes();
    await this.#methodTest?.compare(group, this.figures);
  }

  async compare(group: ProcessGroup, exchange: (stateHash: string) => Promise<void>): Promise<void> {
    await this.samples.compareContents(group);
    if (this.progress.isOver) await this.#rangeTest?.restore();
    const compare = (): Promise<void> => exchange(this.stateHash());
    const savesState = this.#options.savesState?.(group.localRank) ?? false;
    await (this.#wholeStates?.during(savesState, compare) ?? compare());
  }

  async outcome(): ReturnType<RankStep['outcome']> {
    const { step, losses } = this.progress.now;
    const texts = await this.#options.texts?.finish(step);
    const shares = this.#balance.outcome;
    const methods = this.#methodTest?.comparison;
    const rateTest = this.#rangeTest?.resultOf(losses);
    return {
      ...(shares && { shares: [...shares] }),
      ...(rateTest && { rateTest }),
      ...(methods && { methods }),
      ...texts,
    };
  }

  dispose(): void {
    this.#wholeStates?.dispose();
    this.strategy.dispose();
    this.#gradScaler?.dispose();
    this.#captures?.dispose();
  }

  /**
   * Takes a step. Computes the gradient of this rank's part of the step in one or more passes. The
   * strategy combines this gradient with the other ranks' gradients.
   */
  async #take(
    step: number,
    learningRate: number,
    { window, indices, passes }: StepAssignment,
    applied: (loss: number, samples: number) => void,
  ): Promise<RankStepOutcome> {
    const { task, clock, texts } = this.#options;
    const { elastic, accumulator } = this.strategy;
    const optionsOf = (samples: Uint32Array) => ({
      ...passOptions(samples, this.#gradScaler),
      captures: this.#captures,
    });
    const todo = indices.slice(elastic?.heldSamples ?? 0);
    let at = 0;
    const batches = passes.map((size) => {
      const samples = todo.subarray(at, at + size);
      at += size;
      return { samples, size };
    });
    const last = batches.pop()!;
    const stepOfEpoch = { step, epoch: window.epoch };
    const own: MeasuredPass[] = [];
    let startedAt = clock.now();
    let data = 0;
    const read = (): void => {
      data += clock.now() - startedAt;
    };
    if (accumulator) {
      for (const { samples, size } of batches) {
        const accumulate = (pass: Pass): Promise<void> => {
          read();
          return accumulator.accumulate(pass, optionsOf(samples));
        };
        await task.withBatch(samples, accumulate, stepOfEpoch, size);
        const endedAt = clock.now();
        own.push({ size, samples: samples.length, ms: endedAt - startedAt });
        startedAt = endedAt;
      }
    }
    const accumulatedMs = own.reduce((sum, { ms }) => sum + ms, 0);
    const options = { ...optionsOf(last.samples), totalSamples: window.size, learningRate };
    const report = await task.withBatch(
      last.samples,
      (pass, oncomputed) => {
        read();
        return this.strategy.step(pass, { ...options, oncomputed }, ({ loss, samples }) => {
          applied(loss, samples);
          this.samples.clear();
          this.feed?.applied();
        });
      },
      stepOfEpoch,
      last.size,
    );
    const ms = clock.now() - startedAt - report.exposed - report.update;
    own.push({ size: last.size, samples: last.samples.length, ms });
    this.#balance.took(own);
    return {
      report: { ...report, compute: accumulatedMs + report.compute },
      data,
      after: async () => texts?.applied(step + 1, report.loss),
    };
  }

  /** @throws UsageError if the strategy is not elastic. */
  #elastic(done: string): ElasticStrategy {
    if (this.strategy.elastic) return this.strategy.elastic;
    throw new UsageError(
      `A run with the strategy ${this.#options.plan.strategy} cannot be ${done}, because not every rank has the whole state. Choose the strategy ddp.`,
    );
  }
}
