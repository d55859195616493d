/**
 * Trains one job on one epoch's process group: prepare (load, build, agree), then step after step to the end. What it does
 * is told in events; what it computes with is TensorFlow.js's current backend.
 */
import * as tf from '@tensorflow/tfjs';
import type { ProcessGroup } from '../collectives/processGroup.ts';
import { buildModel, countCorrect, lossSum, sampleLength, type Dataset, type JobModel } from '../jobs/index.ts';
import { createOptimizer, type Optimizer } from '../optim/index.ts';
import { DistributedDataParallel, type Reduction } from '../parallel/ddp.ts';
import { allGatherHashes } from '../parallel/hashes.ts';
import { dealWindow, GlobalCursor } from '../parallel/cursor.ts';
import type { Device } from '../protocol/control.ts';
import type { EngineEvent, RankStatistics, RunResult, StepTimes } from '../protocol/events.ts';
import type { JobSpec } from '../protocol/job.ts';
import { median, quantile } from '../telemetry/statistics.ts';
import type { Clock } from '../util/clock.ts';
import { DataError, MismatchError, PeergradError } from '../util/errors.ts';
import { hashState } from '../util/hash.ts';
import { dissenters } from '../util/majority.ts';
import { Batch } from './batch.ts';
import { exchangeStatistics, sumCounts } from './exchange.ts';

/** Held-out accuracy is measured about this often in a run, and at the end of every pass over the data. */
const EVALUATIONS_PER_RUN = 8;
/** Held-out samples for all but the last of them: +- 1 point is enough for a curve, and testing must not outlast training. */
const INTERMEDIATE_SAMPLES = 500;
/** Most held-out samples per forward pass: no gradients are kept, so more than a training batch fit. */
const EVALUATION_BATCH = 256;

export interface TrainerOptions {
  job: JobSpec;
  data: { train: Dataset; test: Dataset };
  group: ProcessGroup;
  device: Device;
  clock: Clock;
  emit: (event: EngineEvent) => void;
  /** Throws if the device's results are void. */
  checkDevice: () => void;
  /** How the ranks are linked, for the result. */
  transport: RunResult['transport'];
  signal: AbortSignal;
}

export class Trainer {
  readonly #options: TrainerOptions;
  readonly #model: JobModel;
  readonly #ddp: DistributedDataParallel;
  readonly #optimizer: Optimizer;
  readonly #cursor: GlobalCursor;
  readonly #totalSteps: number;
  readonly #evaluateEvery: number;
  readonly #trainBatch: Batch;
  readonly #testBatch: Batch;
  readonly #times: StepTimes[] = [];
  readonly #losses: number[] = [];
  #statistics: RankStatistics[] = [];
  #hashes: string[] = [];
  #accuracy = 0;
  #gradientBytesSent = 0;
  #timesReported = 0;

  private constructor(options: TrainerOptions, model: JobModel, ddp: DistributedDataParallel) {
    this.#options = options;
    this.#model = model;
    this.#ddp = ddp;
    const { job, data, group } = options;
    this.#optimizer = createOptimizer(job.optimizer, { learningRate: job.learningRate }, ddp.layout.size);
    this.#cursor = new GlobalCursor({ datasetSize: data.train.size, seed: job.seed });
    const stepsPerEpoch = Math.ceil(data.train.size / (job.batchSize * group.worldSize));
    this.#totalSteps = Math.min(job.epochs * stepsPerEpoch, job.maxSteps ?? Infinity);
    this.#evaluateEvery = Math.min(stepsPerEpoch, Math.ceil(this.#totalSteps / EVALUATIONS_PER_RUN));
    this.#trainBatch = new Batch(data.train, job.batchSize);
    this.#testBatch = new Batch(data.test, Math.min(EVALUATION_BATCH, Math.ceil(data.test.size / group.worldSize)));
  }

  /**
   * Builds the model, agrees on it with the other ranks, and compiles its shaders, so that the first step is like any other.
   *
   * @throws (rejects) DataError where ranks hold different data, MismatchError where they hold different models, and what the collectives reject with.
   */
  static async prepare(options: TrainerOptions): Promise<Trainer> {
    const { job, data, group, emit, clock, checkDevice } = options;
    await verifyData(group, data);
    const model = buildModel(job, data.train);
    let ddp: DistributedDataParallel | null = null;
    try {
      ddp = await DistributedDataParallel.create(model.variables, group, { clock, checkGradients: checkDevice });
      const trainer = new Trainer(options, model, ddp);
      emit({
        type: 'model',
        parameters: ddp.layout.size,
        gradientBytes: ddp.gradientBytes,
        bucketBytes: ddp.bucketBytes,
        totalSteps: trainer.#totalSteps,
        trainSamples: data.train.size,
        testSamples: data.test.size,
      });
      emit({ type: 'warmup', message: 'Compiling the model for this GPU' });
      await trainer.#warmUp();
      return trainer;
    } catch (error) {
      ddp?.dispose();
      model.dispose();
      throw error;
    }
  }

  /** Digest of parameters and optimizer state: equal on all ranks, or something is wrong. */
  stateHash(): string {
    const { scalars, slots } = this.#optimizer.state();
    return hashState([this.#ddp.parameters, scalars, ...slots]);
  }

  /**
   * Runs all steps. Every rank resolves with the same figures but for times that only it can know.
   *
   * @throws (rejects) DeviceError, MismatchError where states differ, what the collectives reject with, and the reason of
   *   `signal`.
   */
  async run(): Promise<RunResult> {
    const { job, clock, emit, signal, group } = this.#options;
    const startedAt = clock.now();
    for (let step = 0; step < this.#totalSteps; step++) {
      signal.throwIfAborted();
      const stepAt = clock.now();
      const window = this.#cursor.window(step, job.batchSize * group.worldSize);
      const mine = dealWindow(window.indices, group.rank, group.worldSize);
      const reduction = await this.#backward(mine);
      checkLoss(reduction.loss, step);
      const updateAt = clock.now();
      this.#ddp.step(this.#optimizer);
      const now = clock.now();
      const ms = timesOf(reduction, now - stepAt, now - updateAt);
      this.#times.push(ms);
      this.#losses.push(reduction.loss);
      this.#gradientBytesSent += reduction.bytesSent;
      const { loss, samples, traces } = reduction;
      const { dataEpoch } = window;
      traces.forEach(({ startedAt: since, hops }, bucket) => {
        const bytes = this.#ddp.bucketBytes[bucket]!;
        if (hops.length > 0) emit({ type: 'trace', step, bucket, bytes, startedAt: since, hops: [...hops] });
      });
      emit({ type: 'step', step, dataEpoch, loss, samples, ms, at: now - startedAt });
      const done = step + 1;
      const isLast = done === this.#totalSteps;
      const endsPass = window.next.offset === 0;
      if (isLast) await this.#evaluate(step, Infinity);
      else if (endsPass || done % this.#evaluateEvery === 0) await this.#evaluate(step, INTERMEDIATE_SAMPLES);
      if (isLast || done % job.hashEvery === 0) await this.#compare(step);
    }
    return this.#result(clock.now() - startedAt);
  }

  dispose(): void {
    this.#ddp.dispose();
    this.#model.dispose();
  }

  /** Gradients of this rank's `indices`, reduced with everyone's. */
  #backward(indices: Uint32Array): Promise<Reduction> {
    return this.#trainBatch.with(indices, ({ inputs, labels, weights }) =>
      this.#ddp.backward(() => lossSum(this.#model.logits(inputs), labels, weights), {
        samples: indices.length,
        reduction: 'sum',
      }),
    );
  }

  /** Runs everything once. A gradient that is not applied leaves no trace in the state. */
  async #warmUp(): Promise<void> {
    const { data, job, checkDevice } = this.#options;
    const first = Uint32Array.from({ length: Math.min(job.batchSize, data.train.size) }, (_, i) => i);
    await this.#backward(first);
    await this.#countCorrect(new Uint32Array());
    checkDevice();
  }

  /** Accuracy on the first held-out samples, at most `most`: each rank tests its share, the counts are summed. */
  async #evaluate(step: number, most: number): Promise<void> {
    const { data, group, emit } = this.#options;
    let correct = 0;
    const share = dealWindow(
      Uint32Array.from({ length: Math.min(most, data.test.size) }, (_, i) => i),
      group.rank,
      group.worldSize,
    );
    for (let at = 0; at < share.length; at += this.#testBatch.size) {
      correct += await this.#countCorrect(share.subarray(at, at + this.#testBatch.size));
    }
    const [allCorrect, allSamples] = await sumCounts(group, [correct, share.length]);
    this.#accuracy = allCorrect! / Math.max(1, allSamples!);
    emit({ type: 'evaluation', step, accuracy: this.#accuracy, samples: allSamples! });
  }

  #countCorrect(indices: Uint32Array): Promise<number> {
    const { size, labels, weights } = this.#testBatch;
    return this.#testBatch.with(indices, async ({ inputs }) => {
      const logits = tf.tidy(() => this.#model.logits(inputs));
      try {
        return countCorrect(await logits.data(), labels, logits.size / size, weights);
      } finally {
        logits.dispose();
      }
    });
  }

  /** Compares state hashes and exchanges statistics. */
  async #compare(step: number): Promise<void> {
    const { group, emit } = this.#options;
    const hashes = await allGatherHashes(group, this.stateHash());
    const dissenting = dissenters(hashes);
    this.#hashes = hashes;
    emit({ type: 'hashes', step, hashes, agree: dissenting.length === 0 });
    if (dissenting.length > 0) {
      throw new MismatchError(
        `After step ${step + 1} the state of rank ${dissenting.join(', ')} differs from the others', so the run stopped: ` +
          'that machine computes wrongly or runs another version of the page.',
        { rank: group.rank, worldSize: group.worldSize, step },
      );
    }
    const recent = this.#times.slice(this.#timesReported);
    this.#timesReported = this.#times.length;
    const gradientBytesSent = this.#gradientBytesSent;
    this.#statistics = await exchangeStatistics(group, {
      computeMs: median(recent.map(({ compute }) => compute)),
      communicateMs: median(recent.map(({ communicate }) => communicate)),
      stepMs: median(recent.map(({ total }) => total)),
      gradientBytesSent,
      otherBytesSent: group.bytesSent - gradientBytesSent,
    });
    emit({ type: 'ranks', step, ranks: this.#statistics });
  }

  #result(ms: number): RunResult {
    const { device, group, job, transport, data } = this.#options;
    const times = this.#times;
    const samplesPerStep = job.batchSize * group.worldSize;
    return {
      worldSize: group.worldSize,
      backend: device.backend,
      adapter: device.adapter,
      transport,
      steps: this.#totalSteps,
      epochs: Math.ceil(this.#totalSteps / Math.ceil(data.train.size / samplesPerStep)),
      loss: this.#losses.at(-1)!,
      accuracy: this.#accuracy,
      stateHash: this.#hashes,
      bytesSentPerRank: this.#statistics.map(({ gradientBytesSent }) => gradientBytesSent),
      otherBytesSentPerRank: this.#statistics.map(({ otherBytesSent }) => otherBytesSent),
      gradientBytes: this.#ddp.gradientBytes,
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

/** Windows are dealt out by index, so every rank must hold the same samples: sizes, shapes and both ends are compared. */
async function verifyData(group: ProcessGroup, { train, test }: TrainerOptions['data']): Promise<void> {
  const parts = [train, test].flatMap((data) => {
    const ends = Uint32Array.of(0, data.size - 1);
    const inputs = new Float32Array(2 * sampleLength(data));
    const labels = new Int32Array(2);
    data.read(ends, inputs, labels);
    return [Int32Array.of(data.size, data.classes, ...data.inputShape), inputs, labels];
  });
  const [odd] = dissenters(await allGatherHashes(group, hashState(parts)));
  if (odd === undefined) return;
  throw new DataError(
    `Rank ${odd} has other data than the others: give every tab the same files, or let the server serve them (--data).`,
    { rank: group.rank, worldSize: group.worldSize },
  );
}

/** A diverged run goes on for ever and learns nothing; all ranks see the same loss, so all stop at the same step. */
function checkLoss(loss: number, step: number): void {
  if (Number.isFinite(loss)) return;
  throw new PeergradError(
    `The loss is no longer a number at step ${step + 1}: start again with a lower learning rate.`,
    {
      step,
    },
  );
}

function timesOf({ compute, readback, communicate, exposed }: Reduction, total: number, update: number): StepTimes {
  return { total, compute, readback, communicate, exposed, update };
}
