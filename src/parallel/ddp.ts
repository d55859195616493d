/**
 * `DistributedDataParallel`: one model, a replica on every rank, kept equal by averaging gradients. As
 * torch.nn.parallel.DistributedDataParallel (https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html),
 * with three differences: gradients are averaged over samples, not over ranks, so that N ranks equal one whatever the batch
 * sizes; and the optimizer runs on the CPU on one flat array, so that replicas stay equal bit for bit on any mix of GPUs; and
 * models with state that training does not compute gradients for (batch normalization's averages) are refused for now.
 */
import type { ProcessGroup } from '../collectives/processGroup.ts';
import type { OpTrace } from '../collectives/work.ts';
import { systemClock, type Clock } from '../util/clock.ts';
import { MismatchError, UsageError } from '../util/errors.ts';
import { hashState } from '../util/hash.ts';
import { createLayout, type FlatLayout } from './buckets.ts';
import {
  gradientsOf,
  readVariables,
  TensorReader,
  variablesOf,
  writeVariables,
  type Model,
  type Scalar,
  type Variable,
} from './flatten.ts';
import { allGatherHashes } from './hashes.ts';

export interface DistributedDataParallelOptions {
  firstBucketBytes?: number;
  bucketCapBytes?: number;
  clock?: Clock;
  /** Called when a step's gradients are read and before any is sent; throws if they are void, as after a GPU error. */
  checkGradients?: () => void;
}

export interface BackwardOptions {
  /** Samples that this rank's loss covers; 0 is fine, the others' count. */
  samples: number;
  /** Whether the loss function gives the mean over those samples (default) or their sum. */
  reduction?: 'mean' | 'sum';
}

/** What a step's reduction gave and took; times in milliseconds, see `StepTimes`. */
export interface Reduction {
  /** Mean over all ranks' samples. */
  loss: number;
  /** Samples of all ranks. */
  samples: number;
  /** Bytes of frames this rank sent. */
  bytesSent: number;
  /** How each bucket went round the ring. */
  traces: OpTrace[];
  compute: number;
  readback: number;
  communicate: number;
  exposed: number;
}

/** What `step` needs of an optimizer: parameters changed in place by the same bits on every machine. */
export interface UpdateRule {
  apply(params: Float32Array, gradient: Float32Array): void;
}

/** Behind the last gradient: the summed loss and the sample count, reduced with the last bucket. */
const EXTRA_ELEMENTS = 2;

export class DistributedDataParallel {
  readonly group: ProcessGroup;
  readonly layout: FlatLayout;
  /** All parameters, flat, as {@link layout} says. Equal on all ranks. */
  readonly parameters: Float32Array<ArrayBuffer>;
  /** After {@link backward}: the gradient averaged over all ranks' samples, flat. */
  readonly gradient: Float32Array<ArrayBuffer>;
  readonly #variables: readonly Variable[];
  readonly #clock: Clock;
  readonly #checkGradients: () => void;
  readonly #reader = new TensorReader();
  /** What goes round the ring: the gradient, then the extra elements. */
  readonly #buffer: Float32Array<ArrayBuffer>;

  private constructor(variables: readonly Variable[], group: ProcessGroup, options: DistributedDataParallelOptions) {
    this.group = group;
    this.#variables = variables;
    this.#clock = options.clock ?? systemClock;
    this.#checkGradients = options.checkGradients ?? (() => {});
    this.layout = createLayout(
      variables.map(({ size }) => size),
      options,
    );
    this.parameters = new Float32Array(this.layout.size);
    this.#buffer = new Float32Array(this.layout.size + EXTRA_ELEMENTS);
    this.gradient = this.#buffer.subarray(0, this.layout.size);
  }

  /**
   * Wraps a model: checks that every rank holds the same shapes, then gives all of them rank 0's parameters.
   *
   * @param model a LayersModel, or its trainable variables (float32) in forward order.
   * @throws (rejects) MismatchError where shapes differ, UsageError where there is nothing to train, or state
   *   that is not trained.
   */
  static async create(
    model: Model | readonly Variable[],
    group: ProcessGroup,
    options: DistributedDataParallelOptions = {},
  ): Promise<DistributedDataParallel> {
    const variables = variablesOf(model);
    if (variables.length === 0) throw new UsageError('The model has no trainable parameters.');
    const ddp = new DistributedDataParallel(variables, group, options);
    await ddp.#verifyShapes();
    await readVariables(variables, ddp.layout.slots, ddp.parameters);
    await group.broadcast(ddp.parameters, 0);
    writeVariables(variables, ddp.layout.slots, ddp.parameters);
    return ddp;
  }

  /** Bytes of what goes round the ring in a step: the gradient and the two extra elements. */
  get gradientBytes(): number {
    return this.#buffer.byteLength;
  }

  /** The same by bucket. */
  get bucketBytes(): number[] {
    return this.layout.buckets.map((_, bucket) => this.#bucketView(bucket).byteLength);
  }

  /**
   * Computes this rank's gradients and averages them with all other ranks': the all-reduce of one bucket runs while the next
   * is read back. Every rank must call it, with as many samples as it has.
   *
   * @param loss the forward pass; gives a scalar of this rank's samples.
   * @throws (rejects) DeviceError, and what {@link ProcessGroup.allReduce} rejects with.
   */
  async backward(loss: () => Scalar, { samples, reduction = 'mean' }: BackwardOptions): Promise<Reduction> {
    const clock = this.#clock;
    const startedAt = clock.now();
    // A rank without samples has nothing to compute: it contributes zeros.
    const computed = samples > 0 ? gradientsOf(loss, this.#variables, reduction === 'mean' ? samples : 1) : null;
    if (!computed) this.#buffer.fill(0);
    let firstReadAt = startedAt;
    let issuedAt = startedAt;
    let lastReadAt = startedAt;
    let bytesSent = 0;
    const traces: OpTrace[] = [];
    try {
      const { buckets } = this.layout;
      const last = buckets.length - 1;
      const lossValue = new Float32Array(1);
      // All reads are queued at once; the GPU does them in order, so the first bucket is here while others are copied.
      const reads = computed
        ? buckets.map(({ slots, start, end }, bucket) =>
            this.#reader.read(
              bucket,
              slots.map(({ parameter }) => computed.gradients[parameter]!),
              this.#buffer.subarray(start, end),
            ),
          )
        : [];
      if (computed) reads.push(this.#reader.read(buckets.length, [computed.value], lossValue));
      // Awaited one after the other below: one that fails meanwhile must not count as unhandled.
      for (const read of reads) read.catch(() => {});
      const works = [];
      for (const bucket of buckets.keys()) {
        await reads[bucket];
        if (bucket === 0) firstReadAt = clock.now();
        if (bucket === last) {
          await reads[buckets.length];
          this.#buffer[this.layout.size] = lossValue[0]!;
          this.#buffer[this.layout.size + 1] = samples;
        }
        this.#checkGradients();
        lastReadAt = clock.now();
        if (bucket === 0) issuedAt = lastReadAt;
        works.push(this.group.allReduce(this.#bucketView(bucket), { bucket }));
      }
      for (const work of works) {
        await work;
        bytesSent += work.bytesSent;
        if (work.trace) traces.push(work.trace);
      }
    } finally {
      computed?.dispose();
    }
    const doneAt = clock.now();
    const totalLoss = this.#buffer[this.layout.size]!;
    const totalSamples = this.#buffer[this.layout.size + 1]!;
    // A division that every rank does alike: exact IEEE, so the bits stay equal.
    if (totalSamples > 0) for (let i = 0; i < this.gradient.length; i++) this.gradient[i]! /= totalSamples;
    return {
      loss: totalSamples > 0 ? totalLoss / totalSamples : 0,
      samples: totalSamples,
      bytesSent,
      traces,
      compute: firstReadAt - startedAt,
      readback: lastReadAt - firstReadAt,
      communicate: doneAt - issuedAt,
      exposed: doneAt - lastReadAt,
    };
  }

  /** Applies the averaged gradient with `optimizer` and gives the model its new parameters. */
  step(optimizer: UpdateRule): void {
    optimizer.apply(this.parameters, this.gradient);
    writeVariables(this.#variables, this.layout.slots, this.parameters);
  }

  dispose(): void {
    this.#reader.dispose();
  }

  #bucketView(bucket: number): Float32Array<ArrayBuffer> {
    const { start, end } = this.layout.buckets[bucket]!;
    const extra = bucket === this.layout.buckets.length - 1 ? EXTRA_ELEMENTS : 0;
    return this.#buffer.subarray(start, end + extra);
  }

  async #verifyShapes(): Promise<void> {
    const shapes = JSON.stringify(this.#variables.map(({ shape }) => shape));
    const hashes = await allGatherHashes(this.group, hashState([new TextEncoder().encode(shapes)]));
    const other = hashes.findIndex((hash) => hash !== hashes[0]);
    if (other < 0) return;
    throw new MismatchError(
      `DDP expects the same model on all ranks, but rank ${other}'s parameters differ in number or shape from rank 0's. ` +
        'Build the same model everywhere.',
      { rank: this.group.rank, worldSize: this.group.worldSize },
    );
  }
}
