/** State that no gradient changes: batch normalization's averages, frozen weights. */
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { createOptimizer } from '../../../src/optim/index.ts';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { meanSquare, normalized, samplesOf, weightsOf } from '../models.ts';

/** The moving mean of `normalized`. */
function movingMean(model: tf.LayersModel): number[] {
  return Array.from(model.layers[1]!.getWeights()[2]!.dataSync());
}

/** The moving mean after a pass over `inputs` alone: the momentum is one half. */
function movingMeanAfter(model: tf.LayersModel, inputs: tf.Tensor): number[] {
  const batch = tf.tidy(() => Array.from((model.layers[0]!.apply(inputs) as tf.Tensor).mean(0).dataSync<'float32'>()));
  return movingMean(model).map((mean, i) => (mean + batch[i]!) / 2);
}

describe('buffers', () => {
  test.each([1, 2, 3, 4])('of %i ranks begin with the values of rank 0, and are equal after every step', async (n) => {
    const seen: number[][][] = Array.from({ length: 4 }, () => []);
    await runWorld(n, async (group) => {
      const model = normalized(7 + group.rank);
      const ddp = await DistributedDataParallel.create(model, group);
      expect(movingMean(model)).toEqual([7, 7, 7, 7]);
      const optimizer = createOptimizer('adam', { learningRate: 0.01 }, ddp.layout.size);
      for (let step = 0; step < 3; step++) {
        const inputs = samplesOf(group.rank, step, 6);
        const expected = movingMeanAfter(model, inputs);
        await ddp.backward({ inputs, loss: meanSquare }, { samples: 6 });
        ddp.step(optimizer);
        seen[step]!.push(weightsOf(model));
        if (group.rank === 0) {
          movingMean(model).forEach((mean, i) => expect(mean).toBeCloseTo(expected[i]!, 5));
        }
      }
    });
    for (const states of seen) for (const state of states) expect(state).toEqual(states[0]);
  });

  test('are equal on all ranks before every pass, even if the loss is a function that calls the model', async () => {
    await runWorld(3, async (group) => {
      const model = normalized(group.rank);
      const ddp = await DistributedDataParallel.create(model, group);
      const before: number[][] = [];
      for (let step = 0; step < 3; step++) {
        const loss = (): tf.Scalar => {
          before.push(movingMean(model));
          return meanSquare(model.apply(samplesOf(group.rank, step, 4), { training: true }) as tf.Tensor);
        };
        await ddp.backward(loss, { samples: 4 });
      }
      const all = await group.allGather(Float32Array.from(before.flat()));
      for (const means of all) expect(means).toEqual(all[0]);
    });
  });

  test('may differ between ranks if broadcastBuffers is false', async () => {
    const means = await runWorld(2, async (group) => {
      const model = normalized(group.rank);
      const ddp = await DistributedDataParallel.create(model, group, { broadcastBuffers: false });
      expect(movingMean(model)).toEqual([0, 0, 0, 0]);
      await ddp.backward({ inputs: samplesOf(group.rank, 0, 4), loss: meanSquare }, { samples: 4 });
      return movingMean(model);
    });
    expect(means[0]).not.toEqual(means[1]);
  });

  test('that no pass changes, such as frozen weights, are sent once', async () => {
    const width = 2000;
    await runWorld(2, async (group) => {
      const model = tf.sequential({
        layers: [
          tf.layers.dense({ units: 1, inputShape: [width], trainable: false, kernelInitializer: 'randomNormal' }),
          tf.layers.dense({ units: 1, kernelInitializer: 'ones' }),
        ],
      });
      const ddp = await DistributedDataParallel.create(model, group);
      const inputs = tf.ones([1, width]);
      const { bytesSent } = await ddp.backward({ inputs, loss: meanSquare }, { samples: 1 });
      expect(bytesSent).toBeLessThan(width);
      const all = await group.allGather(Float32Array.from(weightsOf(model)));
      expect(all[1]).toEqual(all[0]);
    });
  });

  test('are the non-trainable variables if DDP receives a list of variables', async () => {
    await runWorld(3, async (group) => {
      const weight = tf.variable(tf.scalar(1));
      const counter = tf.variable(tf.scalar(10 * group.rank), false);
      const ddp = await DistributedDataParallel.create([counter, weight], group);
      for (let step = 1; step <= 3; step++) {
        const loss = (): tf.Scalar => {
          counter.assign(counter.add(1 + group.rank));
          return weight.mul(2);
        };
        await ddp.backward(loss, { samples: 1 });
        expect(counter.dataSync()[0]).toBe(step);
      }
    });
  });

  test.each([
    ['fp32', [0, 4, 4]],
    ['fp32', [4, 0, 4]],
    ['fp32', [0, 0, 4]],
    ['fp16', [0, 4, 4]],
    ['int8', [0, 0, 4]],
  ] as const)('come from the lowest rank with samples: codec %s, samples %j', async (codec, counts) => {
    const source = counts.findIndex((count) => count > 0);
    await runWorld(3, async (group) => {
      const model = normalized(5);
      const ddp = await DistributedDataParallel.create(model, group, { codec });
      const optimizer = createOptimizer('sgd', { learningRate: 0.01 }, ddp.layout.size);
      for (let step = 0; step < 2; step++) {
        const expected = movingMeanAfter(model, samplesOf(source, step, 4));
        await ddp.backward(
          { inputs: samplesOf(group.rank, step, 4), loss: meanSquare },
          { samples: counts[group.rank]! },
        );
        ddp.step(optimizer);
        movingMean(model).forEach((mean, i) => expect(mean).toBeCloseTo(expected[i]!, 5));
        const all = await group.allGather(Float32Array.from(weightsOf(model)));
        for (const weights of all) expect(weights).toEqual(all[0]);
      }
    });
  });

  test('come from rank 25 if all lower ranks have no samples', async () => {
    const counts = await runWorld(27, async (group) => {
      const weight = tf.variable(tf.scalar(1));
      const counter = tf.variable(tf.scalar(0), false);
      const ddp = await DistributedDataParallel.create([counter, weight], group);
      const loss = (): tf.Scalar => {
        counter.assign(tf.scalar(group.rank));
        return weight.mul(2);
      };
      await ddp.backward(loss, { samples: group.rank < 25 ? 0 : 1 });
      return counter.dataSync()[0];
    });
    expect(new Set(counts)).toEqual(new Set([25]));
  });

  test('do not change in a step in which no rank has samples', async () => {
    await runWorld(2, async (group) => {
      const model = normalized(5);
      const ddp = await DistributedDataParallel.create(model, group);
      await ddp.backward({ inputs: samplesOf(group.rank, 0, 4), loss: meanSquare }, { samples: 0 });
      expect(movingMean(model)).toEqual([5, 5, 5, 5]);
    });
  });

  test('come from a rank with samples in a noSync pass, if no lower rank has samples', async () => {
    await runWorld(3, async (group) => {
      const model = normalized(5);
      const ddp = await DistributedDataParallel.create(model, group);
      const expected = movingMeanAfter(model, samplesOf(1, 0, 4));
      const pass = (samples: number) =>
        ddp.backward({ inputs: samplesOf(group.rank, 0, 4), loss: meanSquare }, { samples });
      await ddp.noSync(() => pass(group.rank === 1 ? 4 : 0));
      await pass(group.rank === 2 ? 4 : 0);
      movingMean(model).forEach((mean, i) => expect(mean).toBeCloseTo(expected[i]!, 5));
    });
  });

  test('that change in a noSync pass are sent with the next reduction', async () => {
    await runWorld(2, async (group) => {
      const model = normalized(5);
      const ddp = await DistributedDataParallel.create(model, group);
      const pass = (step: number) =>
        ddp.backward({ inputs: samplesOf(group.rank, step, 4), loss: meanSquare }, { samples: 4 });
      const { bytesSent } = await ddp.noSync(() => pass(0));
      expect(bytesSent).toBe(0);
      const local = await group.allGather(Float32Array.from(movingMean(model)));
      expect(local[1]).not.toEqual(local[0]);
      await pass(1);
      const shared = await group.allGather(Float32Array.from(movingMean(model)));
      expect(shared[1]).toEqual(shared[0]);
    });
  });
});
