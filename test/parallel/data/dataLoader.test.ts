import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { DataLoader, type DataLoaderOptions } from '../../../src/parallel/data/dataLoader.ts';
import { DataPartitioner } from '../../../src/parallel/data/dataPartitioner.ts';
import { DistributedSampler } from '../../../src/parallel/data/distributedSampler.ts';
import { createDeferred, type Deferred } from '../../../src/util/deferred.ts';
import { UsageError } from '../../../src/util/errors.ts';
import { errorOf } from '../../errorOf.ts';

const inOrder = (size: number, rank = 0, numReplicas = 1): DistributedSampler =>
  new DistributedSampler(size, { numReplicas, rank, shuffle: false });

/** A loader whose batches are the indices. */
const indicesOf = (options: DataLoaderOptions): DataLoader<number[]> =>
  new DataLoader((indices) => Array.from(indices), options);

async function allOf<T>(loader: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const batch of loader) all.push(batch);
  return all;
}

/** A loader of 5 batches of 2 whose loads the test settles. */
function manual(options: Partial<DataLoaderOptions> = {}) {
  const loads: Deferred<tf.Tensor>[] = [];
  const load = async (): Promise<tf.Tensor> => {
    const started = createDeferred<tf.Tensor>();
    loads.push(started);
    return started.promise;
  };
  return { loads, loader: new DataLoader(load, { sampler: inOrder(10), batchSize: 2, ...options }) };
}

/** Lets settled promises call their handlers. */
const settle = async (): Promise<void> => {
  for (let i = 0; i < 10; i++) await Promise.resolve();
};

describe('DataLoader', () => {
  test('divides the samples of a rank into batches; the last one may be smaller', async () => {
    const loader = indicesOf({ sampler: inOrder(11, 1, 2), batchSize: 4 });
    expect(loader.length).toBe(2);
    // The sampler repeats sample 0, so that both ranks have 6.
    expect(await allOf(loader)).toEqual([
      [1, 3, 5, 7],
      [9, 0],
    ]);
  });

  test('drops a smaller last batch with dropLast', async () => {
    const loader = indicesOf({ sampler: inOrder(11), batchSize: 4, dropLast: true });
    expect(loader.length).toBe(2);
    expect(await allOf(loader)).toEqual([
      [0, 1, 2, 3],
      [4, 5, 6, 7],
    ]);
    expect(await allOf(indicesOf({ sampler: inOrder(3), batchSize: 4, dropLast: true }))).toEqual([]);
  });

  test('has batches of one sample by default, and no batch if there are no samples', async () => {
    expect(await allOf(indicesOf({ sampler: inOrder(3) }))).toEqual([[0], [1], [2]]);
    expect(await allOf(indicesOf({ sampler: inOrder(0) }))).toEqual([]);
  });

  test("loads each sample once over all ranks, in the order of the sampler's epoch", async () => {
    const epochs: number[][] = [];
    for (const epoch of [0, 1, 0]) {
      const shares = await Promise.all(
        [0, 1, 2].map(async (rank) => {
          const sampler = new DistributedSampler(30, { numReplicas: 3, rank, seed: 5 });
          const loader = indicesOf({ sampler, batchSize: 4 });
          sampler.setEpoch(epoch);
          return (await allOf(loader)).flat();
        }),
      );
      expect(shares.flat().toSorted((a, b) => a - b)).toEqual(Array.from({ length: 30 }, (_, i) => i));
      epochs.push(shares.flat());
    }
    expect(epochs[2]).toEqual(epochs[0]);
    expect(epochs[1]).not.toEqual(epochs[0]);
  });

  test('loads the samples of a part of DataPartitioner, as tensors', async () => {
    const values = tf.tensor1d([0, 10, 20, 30, 40, 50]);
    const { indices } = new DataPartitioner(6, [0.5, 0.5]).use(1);
    const load = (batch: Int32Array): tf.Tensor => tf.gather(values, batch);
    const loaded: number[] = [];
    const { numTensors } = tf.memory();
    for await (const batch of new DataLoader(load, { sampler: indices, batchSize: 2 })) {
      loaded.push(...batch.dataSync());
      batch.dispose();
    }
    expect(loaded).toEqual(Array.from(indices, (index) => index * 10));
    expect(tf.memory().numTensors).toBe(numTensors);
    values.dispose();
  });

  test.each([
    [undefined, [2, 3, 4, 5, 5]],
    [0, [1, 2, 3, 4, 5]],
    [2, [3, 4, 5, 5, 5]],
  ])('with prefetch %o, has started %o loads when it returns each batch', async (prefetch, expected) => {
    const started: number[] = [];
    const { loads, loader } = manual(prefetch === undefined ? {} : { prefetch });
    const iterator = loader[Symbol.asyncIterator]();
    for (let i = 0; i < 5; i++) {
      const next = iterator.next();
      await settle();
      loads[i]!.resolve(tf.scalar(i));
      const { value } = await next;
      expect((value as tf.Tensor).dataSync()[0]).toBe(i);
      started.push(loads.length);
    }
    expect((await iterator.next()).done).toBe(true);
    expect(started).toEqual(expected);
  });

  test('returns batches in order even if a later one is loaded first', async () => {
    const { loads, loader } = manual();
    const iterator = loader[Symbol.asyncIterator]();
    const first = iterator.next();
    await settle();
    loads[1]!.resolve(tf.scalar(1));
    loads[0]!.resolve(tf.scalar(0));
    const values = [await first, await iterator.next()].map(({ value }) => (value as tf.Tensor).dataSync()[0]);
    expect(values).toEqual([0, 1]);
  });
});

describe('an iteration disposes of the batches that were loaded ahead if it is ended early', () => {
  test('by break', async () => {
    const labels = tf.zeros([10]);
    const load = (indices: Int32Array) => ({ xs: tf.tensor1d(indices), ys: [tf.gather(labels, indices)] });
    const { numTensors } = tf.memory();
    for await (const batch of new DataLoader(load, { sampler: inOrder(10), batchSize: 2, prefetch: 3 })) {
      tf.dispose([batch.xs, ...batch.ys]);
      break;
    }
    await settle();
    expect(tf.memory().numTensors).toBe(numTensors);
  });

  test('by break while a load is not done yet', async () => {
    const { loads, loader } = manual();
    const iterator = loader[Symbol.asyncIterator]();
    const first = iterator.next();
    await settle();
    loads[0]!.resolve(tf.scalar(0));
    ((await first).value as tf.Tensor).dispose();
    await iterator.return();
    const { numTensors } = tf.memory();
    loads[1]!.resolve(tf.scalar(1));
    await settle();
    expect(tf.memory().numTensors).toBe(numTensors);
  });

  test('by an error of a load, which is thrown when its batch is due', async () => {
    const { loads, loader } = manual({ prefetch: 2 });
    const { numTensors } = tf.memory();
    const iterator = loader[Symbol.asyncIterator]();
    const first = iterator.next();
    await settle();
    loads[1]!.reject(new Error('the file has ended'));
    loads[0]!.resolve(tf.scalar(0));
    ((await first).value as tf.Tensor).dispose();
    const error = errorOf(iterator.next());
    for (const each of loads.slice(2)) each.resolve(tf.scalar(2));
    expect((await error).message).toBe('the file has ended');
    await settle();
    expect(tf.memory().numTensors).toBe(numTensors);
    expect((await iterator.next()).done).toBe(true);
  });

  test('by a signal, even while it waits for a load', async () => {
    const abort = new AbortController();
    const { loads, loader } = manual({ signal: abort.signal });
    const iterator = loader[Symbol.asyncIterator]();
    const next = errorOf(iterator.next());
    await settle();
    abort.abort(new Error('the user left'));
    expect((await next).message).toBe('the user left');
    const { numTensors } = tf.memory();
    for (const each of loads) each.resolve(tf.scalar(0));
    await settle();
    expect(tf.memory().numTensors).toBe(numTensors);
    expect(loads).toHaveLength(2);
  });

  test('by a signal that was already aborted, or that the load aborts', async () => {
    const before = manual({ signal: AbortSignal.abort(new Error('too late')) });
    expect((await errorOf(allOf(before.loader))).message).toBe('too late');
    expect(before.loads).toHaveLength(0);
    const abort = new AbortController();
    const load = async (): Promise<never> => {
      abort.abort(new Error('enough'));
      return createDeferred<never>().promise;
    };
    const during = new DataLoader(load, { sampler: inOrder(4), signal: abort.signal });
    expect((await errorOf(allOf(during))).message).toBe('enough');
  });
});

test.each([{ batchSize: 0 }, { batchSize: 1.5 }, { batchSize: NaN }, { prefetch: -1 }, { prefetch: Infinity }])(
  'DataLoader rejects %o',
  (options) => {
    expect(() => indicesOf({ sampler: inOrder(4), ...options })).toThrow(UsageError);
  },
);
