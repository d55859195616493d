import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import { GradScaler } from '../../../src/parallel/backward/gradScaler.ts';
import { UsageError } from '../../../src/util/errors.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { line, meanSquare, mlp, normalized, samplesOf, weightsOf } from '../models.ts';

/** Reduces one pass of a small model, alone. */
async function gradientOf(gradScaler: GradScaler | null): Promise<number[]> {
  const [gradient] = await runWorld(1, async (group) => {
    const model = mlp(1);
    const ddp = await DistributedDataParallel.create(model, group);
    const inputs = samplesOf(0, 0, 6);
    await ddp.backward({ inputs, loss: meanSquare }, { samples: 6, gradScaler });
    tf.dispose([inputs, model.weights.map((weight) => weight.read())]);
    const values = Array.from(ddp.gradient);
    ddp.dispose();
    return values;
  });
  return gradient!;
}

/** Moving averages of a model after a pass whose loss is the mean square times `factor`. */
async function averagesAfter(gradScaler: GradScaler | null, factor: number): Promise<number[]> {
  const loss = (outputs: tf.Tensor): tf.Scalar => meanSquare(outputs).mul(factor);
  const [averages] = await runWorld(1, async (group) => {
    const model = normalized(1);
    const ddp = await DistributedDataParallel.create(model, group);
    const inputs = samplesOf(0, 0, 6);
    await ddp.backward({ inputs, loss }, { samples: 6, gradScaler });
    const values = model.nonTrainableWeights.flatMap((weight) => Array.from(weight.read().dataSync()));
    ddp.dispose();
    inputs.dispose();
    return values;
  });
  return averages!;
}

describe('GradScaler', () => {
  test('changes no bit of gradients without an overflow', async () => {
    expect(await gradientOf(new GradScaler())).toEqual(await gradientOf(null));
  });

  test('halves its scale until a pass has no overflow', async () => {
    const gradScaler = new GradScaler({ initScale: 16 });
    const [gradient] = await runWorld(1, async (group) => {
      const [weight, bias] = line(1);
      const ddp = await DistributedDataParallel.create([weight, bias], group);
      // The gradient is 1e38, and float32 ends at 3.4e38.
      await ddp.backward(() => weight.mul(1e38).add(bias).sum(), { samples: 1, gradScaler });
      const values = Array.from(ddp.gradient);
      ddp.dispose();
      tf.dispose([weight, bias]);
      return values;
    });
    expect(gradScaler.scale).toBe(2);
    expect(gradient!.toSorted((a, b) => a - b)).toEqual([1, Math.fround(1e38)]);
  });

  test('repeats a pass with a NaN loss down to a scale of 1, and then returns NaN', async () => {
    const gradScaler = new GradScaler({ initScale: 4 });
    const [loss] = await runWorld(1, async (group) => {
      const [weight, bias] = line(Number.NaN);
      const ddp = await DistributedDataParallel.create([weight, bias], group);
      const reduction = await ddp.backward(() => weight.add(bias).sum(), { samples: 1, gradScaler });
      ddp.dispose();
      tf.dispose([weight, bias]);
      return reduction.loss;
    });
    expect(loss).toBeNaN();
    expect(gradScaler.scale).toBe(1);
  });

  test('keeps its scale if only a metric is not finite', async () => {
    const gradScaler = new GradScaler({ initScale: 16 });
    const [metrics] = await runWorld(1, async (group) => {
      const model = mlp(1);
      const ddp = await DistributedDataParallel.create(model, group, { metrics: 2 });
      const inputs = samplesOf(0, 0, 6);
      const pass = { inputs, loss: meanSquare, metrics: () => tf.tensor1d([Number.NaN, 3]) };
      const reduction = await ddp.backward(pass, { samples: 6, gradScaler });
      tf.dispose([inputs, model.weights.map((weight) => weight.read())]);
      ddp.dispose();
      return reduction.metrics;
    });
    expect(gradScaler.scale).toBe(16);
    expect(metrics).toEqual([Number.NaN, 3]);
  });

  test.each([{ initScale: 1000 }, { initScale: 0.5 }, { initScale: Infinity }, { growthInterval: 0 }])(
    'rejects the option %j',
    (options) => {
      expect(() => new GradScaler(options)).toThrow(UsageError);
    },
  );

  test('doubles its scale after some passes without an overflow', async () => {
    const gradScaler = new GradScaler({ initScale: 4, growthInterval: 2 });
    await gradientOf(gradScaler);
    expect(gradScaler.scale).toBe(4);
    await gradientOf(gradScaler);
    expect(gradScaler.scale).toBe(8);
  });

  test('can train with ranks in full precision, and all replicas stay equal', async () => {
    const weights = await runWorld(3, async (group) => {
      const model = mlp(1);
      const ddp = await DistributedDataParallel.create(model, group);
      const gradScaler = group.rank === 1 ? null : new GradScaler({ initScale: 2 ** (4 + group.rank) });
      for (let step = 0; step < 3; step++) {
        const inputs = samplesOf(group.rank, step, 4);
        await ddp.backward({ inputs, loss: meanSquare }, { samples: 4, gradScaler });
        ddp.step(tf.train.sgd(0.1));
        inputs.dispose();
      }
      const values = weightsOf(model);
      ddp.dispose();
      return values;
    });
    expect(weights[1]).toEqual(weights[0]);
    expect(weights[2]).toEqual(weights[0]);
  });

  test('lets a repeated pass update moving averages only once', async () => {
    const gradScaler = new GradScaler({ initScale: 2 ** 20 });
    const repeated = await averagesAfter(gradScaler, 1e34);
    expect(gradScaler.scale).toBeLessThan(2 ** 20);
    expect(repeated).toEqual(await averagesAfter(null, 1e34));
  });

  test('leaves no tensors', async () => {
    const [counts] = await runWorld(1, async (group) => {
      const [weight, bias] = line(1);
      const ddp = await DistributedDataParallel.create([weight, bias], group);
      const gradScaler = new GradScaler({ initScale: 16 });
      const pass = (): Promise<unknown> =>
        ddp.backward(() => weight.mul(1e38).add(bias).sum(), { samples: 1, gradScaler });
      await pass();
      const before = tf.memory().numTensors;
      await pass();
      return [before, tf.memory().numTensors];
    });
    expect(counts![1]).toBe(counts![0]);
  });
});
