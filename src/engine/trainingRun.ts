/**
 * One run of a task on one epoch's process group: prepare (agree, compile), then step after step to the end, by the strategy that
 * was chosen. What it does is told in events; what it computes with is TensorFlow.js's current backend.
 */
import type { ProcessGroup } from '../collectives/processGroup.ts';
import { createOptimizer } from '../optim/index.ts';
import { dealWindow, GlobalCursor } from '../parallel/cursor.ts';
import { keepingBuffers } from '../parallel/flatten.ts';
import { allGatherHashes } from '../parallel/hashes.ts';
import { createStrategy, type StepReport, type Strategy } from '../parallel/strategies/index.ts';
import type { Device } from '../protocol/control.ts';
import type { EngineEvent, RankStatistics, RunResult, StepTimes } from '../protocol/events.ts';
import type { TrainingPlan } from '../protocol/job.ts';
import { median, quantile } from '../telemetry/statistics.ts';
import type { Clock } from '../util/clock.ts';
import { DataError, MismatchError, PeergradError } from '../util/errors.ts';
import { hashState } from '../util/hash.ts';
import { dissenters } from '../util/majority.ts';
import { exchangeStatistics } from './exchange.ts';
import type { Task } from './task.ts';

/** Held-out samples are tested about this often in a run, and all of them at the end of every pass over the data. */
const EVALUATIONS_PER_RUN = 8;
/** Held-out samples within a pass: +- 1 point is enough for a curve, and testing must not outlast training. */
const INTERMEDIATE_SAMPLES = 500;
/** DiLoCo's outer optimizer, as the paper found best. */
const OUTER_OPTIMIZER = { learningRate: 0.7, momentum: 0.9 };

export interface TrainingRunOptions {
  plan: TrainingPlan;
  task: Task;
  group: ProcessGroup;
  device: Device;
  clock: Clock;
  /** May be asynchronous: the run waits for it. */
  emit: (event: EngineEvent) => void | Promise<void>;
  /** Throws if the device's results are void. */
  checkDevice: () => void;
  /** How the ranks are linked, for the result. */
  transport: RunResult['transport'];
  signal: AbortSignal;
}

export class TrainingRun {
  readonly #options: TrainingRunOptions;
  readonly #strategy: Strategy;
  readonly #cursor: GlobalCursor;
  readonly #stepsPerEpoch: number;
  readonly #totalSteps: number;
  readonly #evaluateEvery: number;
  readonly #times: StepTimes[] = [];
  /** Of all ranks' samples, by step. */
  readonly #losses: number[] = [];
  /** Steps whose losses only their ranks know yet: summed loss and samples of this one's. */
  readonly #ownLosses: { sum: number; samples: number }[] = [];
  #statistics: RankStatistics[] = [];
  #hashes: string[] = [];
  /** Of the latest test. */
  #tested: { loss: number; accuracy: number | null } | null = null;
  #gradientBytes = { sent: 0, received: 0 };
  #timesReported = 0;

  private constructor(options: TrainingRunOptions, strategy: Strategy) {
    this.#options = options;
    this.#strategy = strategy;
    const { plan, task, group } = options;
    this.#cursor = new GlobalCursor({ datasetSize: task.trainSamples, seed: plan.seed });
    this.#stepsPerEpoch = Math.ceil(task.trainSamples / (plan.batchSize * group.worldSize));
    this.#totalSteps = Math.min(plan.epochs * this.#stepsPerEpoch, plan.maxSteps ?? Infinity);
    this.#evaluateEvery = Math.min(this.#stepsPerEpoch, Math.ceil(this.#totalSteps / EVALUATIONS_PER_RUN));
  }

  /**
   * Agrees on the task with the other ranks and compiles its shaders, so that the first step is like any other.
   *
   * @throws (rejects) DataError where ranks hold different data, MismatchError where they hold different models, and what the
   *   collectives reject with.
   */
  static async prepare(options: TrainingRunOptions): Promise<TrainingRun> {
    const { plan, task, group, emit, clock, checkDevice } = options;
    await verifyData(group, task);
    const { optimizer, learningRate } = plan;
    const strategy = await createStrategy(plan, {
      ...{ model: task.model, group, clock, checkGradients: checkDevice },
      createOptimizer: (size) => createOptimizer(optimizer, { learningRate }, size),
      createOuterOptimizer: (size) => createOptimizer('nesterov', OUTER_OPTIMIZER, size),
    });
    try {
      const run = new TrainingRun(options, strategy);
      await emit({ type: 'warmup', message: 'Compiling the model for this GPU' });
      await run.#warmUp();
      // After the first backward, which puts buckets into their order.
      await emit({
        type: 'model',
        parameters: strategy.size,
        gradientBytes: strategy.gradientBytes,
        bucketBytes: [...strategy.bucketBytes],
        totalSteps: run.#totalSteps,
        trainSamples: task.trainSamples,
        testSamples: task.testSamples,
      });
      return run;
    } catch (error) {
      strategy.dispose();
      throw error;
    }
  }

  /** Digest of what the strategy keeps equal: the same on all ranks while they are synchronized, or something is wrong. */
  stateHash(): string {
    return hashState(this.#strategy.state());
  }

  /**
   * Runs all steps. Every rank resolves with the same figures but for times that only it can know.
   *
   * @throws (rejects) DeviceError, MismatchError where states differ, what the collectives reject with, and the reason of
   *   `signal`.
   */
  async run(): Promise<RunResult> {
    const { plan, clock, emit, signal, group } = this.#options;
    const strategy = this.#strategy;
    const startedAt = clock.now();
    /** Samples to test, and whether to compare ranks, at the next step after which all agree. */
    let due = { samples: 0, comparison: false };
    /** From here on bytes are the strategy's: also those on their way between two steps, where ranks do not wait. */
    let mark = { sent: group.bytesSent, received: group.bytesReceived };
    for (let step = 0; step < this.#totalSteps; step++) {
      signal.throwIfAborted();
      const window = this.#cursor.window(step, plan.batchSize * group.worldSize);
      const { dataEpoch } = window;
      const share = dealWindow(window.indices, group.rank, group.worldSize);
      const known = strategy.reportsAllRanks ? window.indices : share;
      await emit({ type: 'begin', step, dataEpoch, samples: known.length });
      const stepAt = clock.now();
      const report = await this.#step(share);
      const isLast = step + 1 === this.#totalSteps;
      if (isLast) await strategy.synchronize();
      this.#gradientBytes.sent += group.bytesSent - mark.sent;
      this.#gradientBytes.received += group.bytesReceived - mark.received;
      mark = { sent: group.bytesSent, received: group.bytesReceived };
      const now = clock.now();
      const ms = timesOf(report, now - stepAt);
      this.#times.push(ms);
      this.#ownLosses.push({ sum: report.loss * report.samples, samples: report.samples });
      for (const [bucket, trace] of report.traces.entries()) {
        if (!trace?.hops.length) continue;
        const { startedAt: since, hops } = trace;
        const bytes = strategy.bucketBytes[bucket]!;
        await emit({ type: 'trace', step, bucket, bytes, startedAt: since, hops: [...hops] });
      }
      const { loss, samples } = report;
      await emit({ type: 'step', step, dataEpoch, loss, samples, ms, at: now - startedAt });
      const done = step + 1;
      const endsPass = window.next.offset === 0;
      if (isLast || endsPass) due.samples = Infinity;
      else if (done % this.#evaluateEvery === 0) due.samples = Math.max(due.samples, INTERMEDIATE_SAMPLES);
      if (isLast || done % plan.hashEvery === 0) due.comparison = true;
      if (!strategy.isSynchronized) continue;
      await this.#collectLosses();
      if (due.samples > 0) await this.#evaluate(step, due.samples);
      if (due.comparison) await this.#compare(step);
      due = { samples: 0, comparison: false };
      mark = { sent: group.bytesSent, received: group.bytesReceived };
    }
    return this.#result(clock.now() - startedAt);
  }

  dispose(): void {
    this.#strategy.dispose();
  }

  /** Learns from this rank's samples `indices`. */
  #step(indices: Uint32Array): Promise<StepReport> {
    const options = { samples: indices.length, reduction: 'sum' } as const;
    return this.#options.task.withBatch(indices, (pass) => this.#strategy.step(pass, options));
  }

  /** Runs everything once, without a trace in the state. */
  async #warmUp(): Promise<void> {
    const { task, plan, checkDevice } = this.#options;
    const first = Uint32Array.from({ length: Math.min(plan.batchSize, task.trainSamples) }, (_, i) => i);
    const options = { samples: first.length, reduction: 'sum' } as const;
    await keepingBuffers(task.model, () => task.withBatch(first, (pass) => this.#strategy.warmUp(pass, options)));
    if (task.testSamples > 0) await task.evaluate(new Uint32Array());
    checkDevice();
  }

  /**
   * The losses of all ranks' samples since the last time.
   *
   * @throws (rejects) PeergradError where one is no number: on all ranks after the same step, as all know the same losses here.
   */
  async #collectLosses(): Promise<void> {
    const own = this.#ownLosses.splice(0);
    const sums = Float64Array.from(own.flatMap(({ sum, samples }) => [sum, samples]));
    if (!this.#strategy.reportsAllRanks) await this.#options.group.allReduce(sums);
    for (let i = 0; i < sums.length; i += 2) {
      const loss = sums[i + 1]! > 0 ? sums[i]! / sums[i + 1]! : 0;
      checkLoss(loss, this.#losses.length);
      this.#losses.push(loss);
    }
  }

  /** Loss and accuracy on the first held-out samples, at most `most`: each rank tests its share, the sums are summed. */
  async #evaluate(step: number, most: number): Promise<void> {
    const { task, group, emit } = this.#options;
    if (task.testSamples === 0) return;
    const samples = Math.min(most, task.testSamples);
    const share = dealWindow(
      Uint32Array.from({ length: samples }, (_, i) => i),
      group.rank,
      group.worldSize,
    );
    const own = [0, 0];
    for (let at = 0; at < share.length; at += task.testBatch) {
      const { lossSum, correct } = await task.evaluate(share.subarray(at, at + task.testBatch));
      own[0]! += lossSum;
      own[1]! += correct;
    }
    const [lossSum, correct] = await group.allReduce(Float64Array.from(own));
    this.#tested = { loss: lossSum! / samples, accuracy: task.classifies ? correct! / samples : null };
    await emit({ type: 'evaluation', step, ...this.#tested, samples });
  }

  /** Compares state hashes and exchanges statistics. */
  async #compare(step: number): Promise<void> {
    const { group, emit } = this.#options;
    const hashes = await allGatherHashes(group, this.stateHash());
    const dissenting = dissenters(hashes);
    this.#hashes = hashes;
    await emit({ type: 'hashes', step, hashes, agree: dissenting.length === 0 });
    if (dissenting.length > 0) {
      throw new MismatchError(
        `After step ${step + 1} the state of rank ${dissenting.join(', ')} differs from the others', so the run stopped: ` +
          'that machine computes wrongly or runs another version of the page.',
        { rank: group.rank, worldSize: group.worldSize, step },
      );
    }
    const recent = this.#times.slice(this.#timesReported);
    this.#timesReported = this.#times.length;
    const { sent: gradientBytesSent, received: gradientBytesReceived } = this.#gradientBytes;
    this.#statistics = await exchangeStatistics(group, {
      computeMs: median(recent.map(({ compute }) => compute)),
      communicateMs: median(recent.map(({ communicate }) => communicate)),
      stepMs: median(recent.map(({ total }) => total)),
      gradientBytesSent,
      gradientBytesReceived,
      otherBytesSent: group.bytesSent - gradientBytesSent,
    });
    await emit({ type: 'ranks', step, ranks: this.#statistics });
  }

  #result(ms: number): RunResult {
    const { device, group, plan, transport } = this.#options;
    const times = this.#times;
    return {
      worldSize: group.worldSize,
      strategy: plan.strategy,
      backend: device.backend,
      adapter: device.adapter,
      transport,
      steps: this.#totalSteps,
      epochs: Math.ceil(this.#totalSteps / this.#stepsPerEpoch),
      loss: this.#losses.at(-1)!,
      accuracy: this.#tested?.accuracy ?? null,
      valLoss: this.#tested?.loss ?? null,
      stateHash: this.#hashes,
      bytesSentPerRank: this.#statistics.map(({ gradientBytesSent }) => gradientBytesSent),
      bytesReceivedPerRank: this.#statistics.map(({ gradientBytesReceived }) => gradientBytesReceived),
      otherBytesSentPerRank: this.#statistics.map(({ otherBytesSent }) => otherBytesSent),
      gradientBytes: this.#strategy.gradientBytes,
      stepMs: {
        median: median(times.map(({ total }) => total)),
        p95: quantile(
          times.map(({ total }) => total),
          0.95,
        ),
        compute: median(times.map(({ compute }) => compute)),
        communicate: median(times.map(({ communicate }) => communicate)),
        exposed: median(times.map(({ exposed }) => exposed)),
      },
      losses: this.#losses,
      restarts: 0,
      ms,
    };
  }
}

/** Windows are dealt out by index, so every rank must hold the same samples. */
async function verifyData(group: ProcessGroup, task: Task): Promise<void> {
  const [odd] = dissenters(await allGatherHashes(group, await task.dataHash()));
  if (odd === undefined) return;
  throw new DataError(`Rank ${odd} has other data than the others: ${task.dataAdvice}.`, {
    rank: group.rank,
    worldSize: group.worldSize,
  });
}

/** A diverged run goes on for ever and learns nothing. */
function checkLoss(loss: number, step: number): void {
  if (Number.isFinite(loss)) return;
  throw new PeergradError(
    `The loss is no longer a number at step ${step + 1}: start again with a lower learning rate.`,
    {
      step,
    },
  );
}

function timesOf({ compute, readback, communicate, exposed, update }: StepReport, total: number): StepTimes {
  return { total, compute, readback, communicate, exposed, update };
}
