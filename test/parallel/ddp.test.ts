import * as tf from '@tensorflow/tfjs';
import { beforeAll, describe, expect, test } from 'vitest';
import { createOptimizer } from '../../src/optim/index.ts';
import { DistributedDataParallel } from '../../src/parallel/ddp.ts';
import { runWorld } from '../../src/testing/index.ts';
import { MismatchError, UsageError } from '../../src/util/errors.ts';

beforeAll(async () => {
  await tf.setBackend('cpu');
});

function refuse(): never {
  throw new Error('the GPU refused');
}

/** y = w x + b as two variables. */
function line(weight: number, bias = 0): [tf.Variable, tf.Variable] {
  return [tf.variable(tf.tensor1d([weight])), tf.variable(tf.tensor1d([bias]))];
}

describe('DistributedDataParallel', () => {
  test.each([1, 2, 3, 5])("averages gradients over %i ranks: PyTorch's Linear(1, 1) with input = rank", async (n) => {
    await runWorld(n, async (group) => {
      const [weight, bias] = line(1);
      const ddp = await DistributedDataParallel.create([weight, bias], group);
      for (let i = 0; i < 5; i++) {
        await ddp.backward(() => weight.mul(group.rank).add(bias).asScalar(), { samples: 1 });
        // Flat order is reversed: bias first.
        expect(Array.from(ddp.gradient)).toEqual([1, Math.fround((n - 1) / 2)]);
      }
    });
  });

  test('weights ranks by their samples, also those that have none', async () => {
    const values = [[1, 2, 3], [], [10]];
    const all = values.flat();
    const losses = await runWorld(3, async (group) => {
      const mine = values[group.rank]!;
      const [weight, bias] = line(2);
      const ddp = await DistributedDataParallel.create([weight, bias], group);
      const sum = (): tf.Scalar => weight.mul(tf.tensor1d(mine)).sum().asScalar();
      const reduction = await ddp.backward(sum, { samples: mine.length, reduction: 'sum' });
      expect(ddp.gradient[1]).toBe(all.reduce((a, b) => a + b) / all.length);
      expect(reduction.samples).toBe(4);
      return reduction.loss;
    });
    expect(losses).toEqual([8, 8, 8]);
  });

  test('starts all ranks from the parameters of rank 0 and keeps them equal bit for bit', async () => {
    const states = await runWorld(4, async (group) => {
      const model = tf.sequential({
        layers: [tf.layers.dense({ units: 5, inputShape: [3], activation: 'relu' }), tf.layers.dense({ units: 2 })],
      });
      const ddp = await DistributedDataParallel.create(model, group, { firstBucketBytes: 4, bucketCapBytes: 32 });
      expect(ddp.layout.buckets.length).toBeGreaterThan(2);
      const optimizer = createOptimizer('adam', { learningRate: 0.01 }, ddp.layout.size);
      for (let step = 0; step < 4; step++) {
        const inputs = tf.randomNormal([6, 3], 0, 1, 'float32', step * 10 + group.rank);
        await ddp.backward(() => (model.apply(inputs) as tf.Tensor).square().mean().asScalar(), { samples: 6 });
        ddp.step(optimizer);
      }
      // What the model computes with is what DDP keeps.
      const inModel = model
        .getWeights()
        .toReversed()
        .flatMap((weight) => Array.from(weight.dataSync()));
      expect(inModel).toEqual(Array.from(ddp.parameters));
      return ddp.parameters;
    });
    for (const state of states) expect(state).toEqual(states[0]);
  });

  test('gives a parameter that the loss does not reach a gradient of zero', async () => {
    await runWorld(2, async (group) => {
      const [weight, bias] = line(1);
      const ddp = await DistributedDataParallel.create([weight, bias], group);
      await ddp.backward(() => weight.mul(3).asScalar(), { samples: 1 });
      expect(Array.from(ddp.gradient)).toEqual([0, 3]);
    });
  });

  test.each([
    ['shape', (rank: number) => [tf.variable(tf.zeros(rank === 1 ? [3] : [4]))]],
    ['number', (rank: number) => Array.from({ length: 2 + rank }, () => tf.variable(tf.zeros([2])))],
  ])(
    'refuses a model that differs between ranks in the %s of its parameters, on every rank',
    async (_what, variables) => {
      await runWorld(3, async (group) => {
        const error: unknown = await DistributedDataParallel.create(variables(group.rank), group).catch(
          (reason: unknown) => reason,
        );
        expect(error).toBeInstanceOf(MismatchError);
        expect(String(error)).toMatch(/DDP expects the same model on all ranks, but rank 1's/);
      });
    },
  );

  test('refuses a model with state that is not trained', async () => {
    const model = tf.sequential({ layers: [tf.layers.batchNormalization({ inputShape: [3] })] });
    await runWorld(1, async (group) => {
      await expect(DistributedDataParallel.create(model, group)).rejects.toThrow(
        /cannot keep these weights equal yet.*moving_mean/,
      );
    });
  });

  test('sends no gradient that its check finds void', async () => {
    await runWorld(1, async (group) => {
      const [weight, bias] = line(1);
      const ddp = await DistributedDataParallel.create([weight, bias], group, { checkGradients: refuse });
      await expect(ddp.backward(() => weight.mul(3).add(bias).asScalar(), { samples: 1 })).rejects.toThrow(
        'the GPU refused',
      );
    });
  });

  test('refuses a model without parameters', async () => {
    await runWorld(1, async (group) => {
      await expect(DistributedDataParallel.create([], group)).rejects.toBeInstanceOf(UsageError);
    });
  });

  test('leaves no tensors behind', async () => {
    await runWorld(1, async (group) => {
      const [weight, bias] = line(1);
      const ddp = await DistributedDataParallel.create([weight, bias], group);
      const optimizer = createOptimizer('sgd', { learningRate: 0.1 }, ddp.layout.size);
      const before = tf.memory().numTensors;
      for (let i = 0; i < 3; i++) {
        await ddp.backward(() => weight.mul(3).add(bias).square().asScalar(), { samples: 1 });
        ddp.step(optimizer);
      }
      expect(tf.memory().numTensors).toBe(before);
    });
  });
});
