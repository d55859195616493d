/** `DataLoader`: a rank's batches, loaded ahead, as in torch.utils.data.DataLoader. */
import * as tf from '@tensorflow/tfjs';
import { createDeferred } from '../../util/deferred.ts';
import { elementCountOf } from '../../util/shape.ts';
import { checkWholeAtLeast } from '../groups/checks.ts';

/** Returns the samples with the given indices, in any form. */
export type LoadBatch<Batch> = (indices: Int32Array) => Batch | Promise<Batch>;

/** A dataset that loaders read, such as those of `imageFolder`, `table` and `loadData`. */
export interface LabelledSamples {
  /** Shape of one sample. A row of n numbers has the shape [1, 1, n]. */
  readonly inputShape: readonly [number, number, number];
  /** Given if labels are amounts; missing if they are numbers of classes. */
  readonly labelUnit?: number;
  /** Number of samples that are worth reading before they are needed. */
  readonly ahead?: number;
  /** Reads samples before they are needed. They replace the samples of the previous call. */
  expect?(next: readonly number[]): void;
  /**
   * Writes samples to the arrays. May resolve with the positions in `indices` of samples that
   * cannot be used.
   */
  read(
    indices: ArrayLike<number>,
    inputs: Float32Array,
    labels: Int32Array | Float32Array,
  ): void | Promise<readonly number[] | void>;
}

export interface LabelledBatch {
  /** float32 [samples, height, width, channels], or [samples, numbers] for rows. */
  xs: tf.Tensor;
  /** Numbers of classes as int32 [samples], or amounts as float32 [samples]. */
  ys: tf.Tensor1D;
}

export interface DataLoaderOptions {
  /**
   * Indices of the samples in their order, such as a {@link DistributedSampler} or the `indices` of
   * a {@link Partition}. They are read when an iteration begins.
   */
  sampler: Iterable<number> & { readonly length: number };
  /** Number of samples of a batch. Default 1. */
  batchSize?: number;
  /** Whether the last batch is dropped if it is smaller than the others. Default false. */
  dropLast?: boolean;
  /** Number of batches that are loaded while the caller uses the previous one. Default 1. */
  prefetch?: number;
  /**
   * A signal that ends iterations. When it is aborted, the next batch is rejected with the signal's
   * reason.
   */
  signal?: AbortSignal;
}

/**
 * Iterates over batches of a sampler's indices.
 *
 * A dataset whose samples are read from files reads those that the sampler has next, ahead of the
 * loop. A batch leaves out samples that cannot be used.
 *
 * With a DistributedSampler all ranks have equally many batches.
 *
 * A batch belongs to the caller once the iterator has returned it. When an iteration ends early, by
 * `break`, an error or the signal, tensors in batches that were loaded ahead are disposed of.
 *
 * @example
 * ```ts
 * const sampler = new DistributedSampler(20, { numReplicas: group.worldSize, rank: group.rank });
 * const load = (indices: Int32Array) => tf.gather(xs, indices);
 * for await (const batch of new DataLoader(load, { sampler, batchSize: 4 })) {
 *   batch.dispose(); // after a step with it
 * }
 * ```
 */
export class DataLoader<Batch = LabelledBatch> implements AsyncIterable<Batch> {
  readonly #data: LoadBatch<Batch> | LabelledSamples;
  readonly #sampler: DataLoaderOptions['sampler'];
  readonly #batchSize: number;
  readonly #dropLast: boolean;
  readonly #prefetch: number;
  readonly #signal: AbortSignal | null;

  /**
   * @param data a dataset, or a function that returns the samples with the given indices, in any
   *   form: an array, typed arrays, tensors, or a promise of one.
   * @throws UsageError if `batchSize` is not a positive whole number, or `prefetch` is negative or
   *   not a whole number.
   */
  constructor(
    data: LoadBatch<Batch> | (LabelledBatch extends Batch ? LabelledSamples : never),
    { sampler, batchSize = 1, dropLast = false, prefetch = 1, signal }: DataLoaderOptions,
  ) {
    checkWholeAtLeast('batchSize', batchSize, 1);
    checkWholeAtLeast('prefetch', prefetch, 0);
    this.#data = data;
    this.#sampler = sampler;
    this.#batchSize = batchSize;
    this.#dropLast = dropLast;
    this.#prefetch = prefetch;
    this.#signal = signal ?? null;
  }

  /** Number of batches of an iteration. */
  get length(): number {
    const batches = this.#sampler.length / this.#batchSize;
    return this.#dropLast ? Math.floor(batches) : Math.ceil(batches);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Batch, void> {
    const indices = Int32Array.from(this.#sampler);
    const count = this.length;
    /** The batches that are being loaded or wait for the caller, in order. */
    const ahead: Promise<Batch>[] = [];
    let started = 0;
    try {
      for (let next = 0; next < count; next++) {
        this.#signal?.throwIfAborted();
        for (; started < count && started <= next + this.#prefetch; started++) {
          const batch = this.#start(indices, started * this.#batchSize);
          // A failure is reported when the caller asks for this batch. Until then it must not count
          // as unhandled.
          batch.catch(() => {});
          ahead.push(batch);
        }
        const batch = await orAborted(ahead[0]!, this.#signal);
        void ahead.shift();
        yield batch;
      }
    } finally {
      // These batches are not awaited: their loads may take long, and the caller has ended the
      // iteration.
      for (const batch of ahead) void batch.then(disposeOf, () => {});
      if ('expect' in this.#data) this.#data.expect?.([]);
    }
  }

  async #start(indices: Int32Array, from: number): Promise<Batch> {
    const data = this.#data;
    const end = from + this.#batchSize;
    const own = indices.slice(from, end);
    if (typeof data === 'function') return data(own);
    data.expect?.(Array.from(indices.subarray(from, end + (data.ahead ?? 0))));
    return (await batchOf(data, own)) as Batch;
  }
}

async function batchOf(data: LabelledSamples, indices: Int32Array): Promise<LabelledBatch> {
  const { inputShape, labelUnit } = data;
  const length = elementCountOf(inputShape);
  const inputs = new Float32Array(indices.length * length);
  const labels = labelUnit === undefined ? new Int32Array(indices.length) : new Float32Array(indices.length);
  const leftOut = new Set((await data.read(indices, inputs, labels)) ?? []);
  let kept = 0;
  for (let at = 0; at < indices.length; at++) {
    if (leftOut.has(at)) continue;
    inputs.copyWithin(kept * length, at * length, (at + 1) * length);
    labels[kept++] = labels[at]!;
  }
  const isRow = inputShape[0] === 1 && inputShape[1] === 1;
  return {
    xs: tf.tensor(inputs.subarray(0, kept * length), [kept, ...(isRow ? [length] : inputShape)]),
    ys: tf.tensor1d(labels.subarray(0, kept), labelUnit === undefined ? 'int32' : 'float32'),
  };
}

/** @throws (rejects) the reason of `signal` as soon as it is aborted. */
async function orAborted<T>(promise: Promise<T>, signal: AbortSignal | null): Promise<T> {
  if (!signal) return promise;
  const aborted = createDeferred<never>();
  const abort = (): void => aborted.reject(signal.reason);
  signal.addEventListener('abort', abort);
  // `load` may have aborted the signal already. Then no event follows.
  if (signal.aborted) abort();
  try {
    return await Promise.race([promise, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

function disposeOf(batch: unknown): void {
  tf.dispose(batch as tf.TensorContainer);
}
