import * as tf from '@tensorflow/tfjs';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { shardDataset } from '../../../src/library/distribute/shardDataset.ts';
import { alone, compiled, distributed, expectEqual, largestDifference, samplesOf, twoByTwo } from './models.ts';

let x: tf.Tensor;
let y: tf.Tensor;
let before: number;

beforeEach(() => {
  before = tf.memory().numTensors;
  ({ x, y } = samplesOf('mlp'));
});

afterEach(() => {
  vi.restoreAllMocks();
  tf.dispose([x, y]);
  expect(tf.memory().numTensors).toBe(before);
});

const mlp = () => compiled('mlp');

/** Batches of samples `start` to `end`, as new tensors. */
function batchesOf(batchSize: number, start = 0, end = 44): tf.data.Dataset<{ xs: tf.Tensor; ys: tf.Tensor }> {
  return tf.data.generator(function* () {
    for (let at = start; at < end; at += batchSize) {
      const count = Math.min(batchSize, end - at);
      yield { xs: x.slice([at, 0], [count, 4]), ys: y.slice([at, 0], [count, 3]) };
    }
  });
}

const sizesOf = (sizes: number[]) => ({
  onBatchEnd: (_: number, logs?: tf.Logs) => void sizes.push(logs!['size']!),
});

const lossOnly = () => compiled('mlp', { metrics: [] });

describe('shardDataset', () => {
  test('yields every N-th element, from the one whose index is the rank, and disposes of the others, in each iteration', async () => {
    const dataset = tf.data.generator(function* () {
      for (let i = 0; i < 8; i++) yield tf.scalar(i);
    });
    for (const rank of [0, 1, 2]) {
      const shard = shardDataset(dataset, { rank, worldSize: 3 });
      for (let pass = 0; pass < 2; pass++) {
        const values: number[] = [];
        await shard.forEachAsync((value) => {
          values.push(value.dataSync()[0]!);
          value.dispose();
        });
        expect(values).toEqual([0, 1, 2, 3, 4, 5, 6, 7].filter((i) => i % 3 === rank));
      }
    }
  });

  test("has the size of the rank's share, even if the whole size is infinite or unknown", () => {
    const ten = tf.data.array(Array.from({ length: 10 }, (_, i) => i));
    expect([0, 1, 2].map((rank) => shardDataset(ten, { rank, worldSize: 3 }).size)).toEqual([4, 3, 3]);
    expect(shardDataset(ten.repeat(), { rank: 0, worldSize: 3 }).size).toBe(Infinity);
    expect(shardDataset(ten.filter(Boolean), { rank: 0, worldSize: 3 }).size).toBeNull();
  });

  test('reads elements only when they are requested', async () => {
    let read = 0;
    const dataset = tf.data.generator(function* () {
      for (; ; read++) yield read;
    });
    const iterator = await shardDataset(dataset, { rank: 1, worldSize: 2 }).iterator();
    expect((await iterator.next()).value).toBe(1);
    expect(read).toBe(1);
  });
});

describe('fitDataset equals model.fitDataset with batches of all ranks', () => {
  test('over epochs with a short last batch, callbacks and held-out samples', async () => {
    const validationData = [x.slice([0, 0], [11, 4]), y.slice([0, 0], [11, 3])] as [tf.Tensor, tf.Tensor];
    const args = { epochs: 2, verbose: 0 as const, validationData, validationBatchSize: 4 };
    const theirs: number[] = [];
    const expected = await alone(mlp, (model) =>
      model.fitDataset(batchesOf(15), { ...args, callbacks: sizesOf(theirs) }),
    );
    const all = await distributed(3, mlp, async (model) => {
      const mine: number[] = [];
      const history = await model.fitDataset(batchesOf(5), { ...args, callbacks: sizesOf(mine) });
      expect(mine).toEqual(theirs);
      return history;
    });
    expectEqual(all, expected);
    tf.dispose(validationData);
  });

  test('with batchesPerEpoch for an infinite dataset, classWeight, and a dataset of held-out samples', async () => {
    const args = { epochs: 2, verbose: 0 as const, classWeight: { 0: 0.5, 1: 2, 2: 1 }, batchesPerEpoch: 2 };
    const expected = await alone(mlp, (model) =>
      model.fitDataset(batchesOf(8, 0, 32).repeat(), { ...args, validationData: batchesOf(4), validationBatches: 5 }),
    );
    const all = await distributed(2, mlp, (model) =>
      model.fitDataset(batchesOf(4, 0, 32).repeat(), { ...args, validationData: batchesOf(4), validationBatches: 5 }),
    );
    expectEqual(all, expected);
  });

  test('with sharded datasets of different lengths', async () => {
    // Rank 1 has one batch, and rank 2 none.
    const all = await distributed(3, mlp, (model, { rank }) =>
      model.fitDataset([batchesOf(6, 0, 24), batchesOf(6, 24, 30), batchesOf(1, 0, 0)][rank]!, {
        epochs: 2,
        sharded: true,
      }),
    );
    const order = tf.tensor1d(
      [...Array(6).keys(), ...[24, 25, 26, 27, 28, 29], ...Array.from({ length: 18 }, (_, i) => 6 + i)],
      'int32',
    );
    const sorted = [x.gather(order), y.gather(order)] as const;
    const expected = await alone(mlp, (model) =>
      model.fitDataset(
        tf.data.generator(function* () {
          for (const [at, count] of [
            [0, 12],
            [12, 6],
            [18, 6],
            [24, 6],
          ] as const) {
            yield { xs: sorted[0].slice([at, 0], [count, 4]), ys: sorted[1].slice([at, 0], [count, 3]) };
          }
        }),
        { epochs: 2, verbose: 0 },
      ),
    );
    expectEqual(all, expected);
    tf.dispose([order, ...sorted]);
  });

  test('with a dataset that ends before the epoch: fitDataset warns, and trains on the batches that exist', async () => {
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => {});
    const args = { epochs: 1, verbose: 0 as const, batchesPerEpoch: 5 };
    const expected = await alone(mlp, (model) => model.fitDataset(batchesOf(22), args));
    expectEqual(await distributed(2, mlp, (model) => model.fitDataset(batchesOf(11), args)), expected);
    expect(warn.mock.lastCall?.[0]).toContain('The dataset ended after 2 batches, but batchesPerEpoch is 5');
  });
});

describe('evaluate', () => {
  test.each([
    ['one output', mlp, 3],
    ['two outputs', twoByTwo, 2],
  ])('returns the values of model.evaluate on every rank: %s', async (_, create, ranks) => {
    const second = tf.randomNormal([44, 2], 0, 1, 'float32', 9);
    const value = tf.tidy(() => x.sum(1));
    const [inputs, targets] =
      create === mlp
        ? [x, y]
        : [
            [x, second],
            [y, value],
          ];
    const model = create();
    const scalars = [model.evaluate(inputs, targets, { batchSize: 8 })].flat();
    const expected = scalars.map((scalar) => scalar.dataSync()[0]!);
    tf.dispose(scalars);
    model.optimizer.dispose();
    model.dispose();
    const all = await distributed(ranks, create, async (distributedModel) => {
      const results = [await distributedModel.evaluate(inputs, targets, { batchSize: 8 })].flat();
      const values = results.map((scalar) => scalar.dataSync()[0]!);
      tf.dispose(results);
      return values;
    });
    for (const { result } of all) {
      expect(result).toEqual(all[0]!.result);
      expect(largestDifference(result, expected)).toBeLessThan(1e-5);
    }
    tf.dispose([second, value]);
  });

  test('of datasets and of sharded samples returns the mean over all samples', async () => {
    const model = lossOnly();
    const loss = model.evaluate(x, y) as tf.Scalar;
    const expected = loss.dataSync()[0]!;
    loss.dispose();
    model.optimizer.dispose();
    model.dispose();
    const all = await distributed(3, lossOnly, async (trainer, { rank }) => {
      const [start, count] = (
        [
          [0, 10],
          [10, 34],
          [0, 0],
        ] as const
      )[rank]!;
      const own = [x.slice([start, 0], [count, 4]), y.slice([start, 0], [count, 3])] as const;
      const results = [
        await trainer.evaluateDataset(batchesOf(5)),
        await trainer.evaluateDataset(batchesOf(7, start, start + count), { sharded: true }),
        await trainer.evaluate(...own, { sharded: true }),
        trainer.predict(x),
      ].flat();
      const values = results.slice(0, 3).map((scalar) => scalar.dataSync()[0]!);
      expect(results[3]!.shape).toEqual([44, 3]);
      tf.dispose([...results, ...own]);
      return values;
    });
    for (const { result } of all) for (const value of result) expect(value).toBeCloseTo(expected, 5);
  });
});
