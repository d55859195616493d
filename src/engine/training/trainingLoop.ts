/**
 * The training loop of one run. It enters a world: all ranks agree on data and state. Then it takes
 * step after step. A world is the process group of a generation. If a world ends early, an elastic
 * strategy continues in the next world. Applied steps are kept. If all ranks have the same samples,
 * each sample of an epoch is used exactly once. Results are emitted as events.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { ReportedDevice } from '../../protocol/room.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { FlightRecording } from '../../protocol/flightRecording.ts';
import type { RunResult } from '../../protocol/runResult.ts';
import type { TrainingPlan } from '../../spec/plan.ts';
import { EventLoopYielder, type Clock } from '../../util/clock.ts';
import { unlessAborted } from '../../util/deadline.ts';
import { createDebugLog } from '../../util/debugLog.ts';
import { UsageError } from '../../util/errors.ts';
import { hashOfArrays } from '../../util/hash.ts';
import { servedPairsOf } from '../membership/transport.ts';
import { LearningRateSchedule } from './learningRate.ts';
import type { RankStep } from './rankStep.ts';
import { WorkDueBetweenSteps } from './workDueBetweenSteps.ts';
import { startCountingGpuCommands } from './telemetry/countGpuCommands.ts';
import { StepReporter } from './telemetry/stepReporter.ts';

/**
 * After this many milliseconds of work, the loop yields to timers and messages. A rank that sends
 * nothing for seconds is considered lost.
 */
const YIELD_MS = 200;

const log = createDebugLog('recovery');

interface LoopOptions {
  plan: TrainingPlan;
  device: ReportedDevice;
  clock: Clock;
  /** Receives the run's events. If it returns a promise, the run waits for it. */
  emit: (event: EngineEvent) => void | Promise<void>;
  /**
   * Copies the model when it has the best evaluation result so far. The run waits for it. Called
   * only in runs with `patience`.
   */
  keepBest?: () => Promise<void>;
  /** Returns whether this rank's page is hidden. By default it is never hidden. */
  isHidden?: () => boolean;
}

/** The ranks with which a run currently trains. */
interface TrainingWorld {
  group: ProcessGroup;
  /** The links between ring neighbours. They are part of the result. */
  transport: RunResult['transport'];
  signal: AbortSignal;
}

export class TrainingLoop {
  readonly #rank: RankStep;
  readonly #options: LoopOptions;
  readonly #rate: LearningRateSchedule;
  readonly #reporter: StepReporter;
  readonly #yielder: EventLoopYielder;
  readonly #dueWork: WorkDueBetweenSteps;
  #world: TrainingWorld | null = null;
  #worlds = 0;
  /** Whether the model is too large for the ranks of this world. */
  #isTooSmall = false;
  #startedAt: number | null = null;

  constructor(rank: RankStep, options: LoopOptions) {
    const { plan, clock } = options;
    this.#rank = rank;
    this.#options = options;
    this.#rate = new LearningRateSchedule(plan, clock);
    this.#reporter = new StepReporter(rank, options);
    this.#yielder = new EventLoopYielder(clock, YIELD_MS);
    const { telemetry } = this.#reporter;
    this.#dueWork = new WorkDueBetweenSteps(rank, { ...options, telemetry, yielder: this.#yielder });
  }

  /** The number of applied steps. */
  get steps(): number {
    return this.#rank.progress.now.step;
  }

  /** Traces, lanes and clocks of the latest steps, for the flight recorder. */
  get recorded(): Pick<FlightRecording, 'traces' | 'lanes' | 'clocks'> {
    return this.#reporter.telemetry.recorded;
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
    const { group, transport, signal } = world;
    const { progress } = this.#rank;
    signal.throwIfAborted();
    group.served = await servedPairsOf(group, transport);
    const ranks = await this.#rank.agree(group);
    this.#world = world;
    this.#worlds += 1;
    this.#rate.enter(progress.now.trainedMs);
    const stateHash = await this.#rank.receive(group);
    this.#isTooSmall = stateHash === null;
    if (stateHash === null) return { step: this.steps, stateHash: hashOfArrays([Float64Array.of(this.steps)]) };
    progress.enter(ranks, this.#rank.samples);
    await this.#reporter.enter(group);
    await this.#rank.entered(group);
    return { step: this.steps, stateHash };
  }

  /**
   * Takes all remaining steps in the current world. Every rank resolves with the same result, apart
   * from times, the device, `restarts` and the algorithm. The algorithm differs only on a rank that
   * has taken no step. After a rejection, an elastic strategy can continue in the next world from
   * the same step. If the final step was already applied, only the remaining evaluations and
   * comparisons are done.
   *
   * @throws (rejects) DeviceError if the GPU fails; DivergenceError if states differ and the
   *   strategy is elastic; MismatchError if states differ and the strategy is not elastic. Also
   *   rejects with the errors of the collectives and the reason of `signal`.
   */
  async run(): Promise<RunResult> {
    const { group, signal } = this.#here;
    const { progress, figures } = this.#rank;
    if (this.#isTooSmall) return unlessAborted(signal, new Promise<never>(() => {}));
    this.#startedAt ??= this.#options.clock.now();
    this.#rank.begin?.(group);
    figures.skipBytes();
    for (;;) {
      if (progress.isOver) await this.#rank.complete?.(group);
      await this.#dueWork.complete(group);
      if (progress.isOver) return this.#result(this.#startedAt);
      signal.throwIfAborted();
      await this.#takeStep(this.#startedAt);
      await this.#yielder.yieldIfDue();
    }
  }

  get #here(): TrainingWorld {
    if (!this.#world) throw new UsageError('The run has no world yet. Call enter first.');
    return this.#world;
  }

  async #takeStep(runStartedAt: number): Promise<void> {
    const { clock, emit, plan } = this.#options;
    const { group } = this.#here;
    const { progress, figures, strategy, samples } = this.#rank;
    const { step, trainedMs } = progress.now;
    const next = await this.#rank.next(group);
    this.#dueWork.readAhead(group);
    if (plan.maxMinutes !== null && strategy.isSynchronized) {
      await this.#rate.measure(group, trainedMs);
      figures.skipBytes();
    }
    const learningRate = this.#rate.at(step, progress.totalSteps(samples));
    const { epoch, offset } = next;
    await emit({ type: 'begin', step, epoch, samples: next.samples });
    const startedAt = clock.now();
    const commandsSince = startCountingGpuCommands();
    const { after, ...taken } = await next.take(learningRate, (loss, lossSamples) => {
      this.#dueWork.applied(loss, lossSamples);
      progress.applied(group.generation, next.end, this.#rate.trainedMs);
      log(() => `Rank ${group.rank}, generation ${group.generation}, commits step ${progress.now.step}.`);
    });
    await this.#reporter.took({ step, epoch, offset, startedAt, runStartedAt, commands: commandsSince(), ...taken });
    await after?.();
  }

  /** Creates the result; see {@link run}. */
  async #result(startedAt: number): Promise<RunResult> {
    const { clock, plan, device } = this.#options;
    const ms = clock.now() - startedAt;
    const { group, transport } = this.#here;
    const { progress, figures, strategy } = this.#rank;
    const { choice } = this.#reporter;
    const { tested, comparison } = this.#dueWork;
    const { hashes, statistics } = comparison;
    const outcome = await this.#rank.outcome(group);
    const { step, position, verdicts } = progress.now;
    // The loss that ends a range test may be NaN or infinite, so it is left out.
    const losses = progress.now.losses.filter(Number.isFinite);
    const verdict = verdicts.at(-1);
    return {
      worldSize: group.worldSize,
      strategy: plan.strategy,
      algorithm: figures.algorithm,
      codec: strategy.elastic?.codec ?? (plan.codec === 'auto' ? 'fp32' : plan.codec),
      ...(choice && { choice }),
      backend: device.backend,
      adapter: device.adapter,
      transport,
      steps: step,
      epochs: position.epoch + (position.offset > 0 ? 1 : 0),
      loss: losses.at(-1)!,
      accuracy: tested?.accuracy ?? null,
      ...(tested?.metrics && { metrics: tested.metrics }),
      valLoss: tested?.loss ?? null,
      ...(verdict && { best: { step: verdict.bestStep, valLoss: verdict.best } }),
      ...(tested?.confusion && { confusion: tested.confusion }),
      stateHash: [...hashes],
      bytesSentPerRank: statistics.map(({ gradientBytesSent }) => gradientBytesSent),
      bytesReceivedPerRank: statistics.map(({ gradientBytesReceived }) => gradientBytesReceived),
      otherBytesSentPerRank: statistics.map(({ otherBytesSent }) => otherBytesSent),
      gradientBytes: strategy.gradientBytes,
      memoryBytesPerRank: statistics.map(({ memoryBytes }) => memoryBytes),
      stepMs: figures.stepMs,
      losses,
      ...outcome,
      restarts: this.#worlds - 1,
      ms,
    };
  }
}
