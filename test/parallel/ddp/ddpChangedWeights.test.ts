import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import type { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import { createOptimizer } from '../../../src/optim/index.ts';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { UsageError } from '../../../src/util/errors.ts';
import { errorOf } from '../../errorOf.ts';
import { line, meanSquare, normalized, samplesOf } from '../models.ts';

async function lineOf(group: ProcessGroup) {
  const [weight] = line(1);
  const ddp = await DistributedDataParallel.create([weight], group);
  const optimizer = createOptimizer('sgd', { learningRate: 1 }, 1);
  const backward = () => ddp.backward(() => weight.sum().asScalar(), { samples: 1 });
  return { weight, ddp, optimizer, backward };
}

describe('weights that are set after DDP has received the model', () => {
  test('make backward and step reject with the name of the weight, and are kept', async () => {
    await runWorld(2, async (group) => {
      const { weight, ddp, optimizer, backward } = await lineOf(group);
      await backward();
      weight.assign(tf.tensor1d([10]));
      expect(ddp.isModelChanged).toBe(true);
      const message = new RegExp(
        `The weight "${weight.name}" of rank ${group.rank}'s model was set .*broadcastParameters`,
      );
      expect(() => ddp.step(optimizer)).toThrow(message);
      const error = await errorOf(backward());
      expect(error).toBeInstanceOf(UsageError);
      expect(error.message).toMatch(message);
      expect(Array.from(weight.dataSync())).toEqual([10]);
    });
  });

  test.each([0, 1])('reach all ranks by broadcastParameters(%i)', async (src) => {
    const ends = await runWorld(2, async (group) => {
      const { weight, ddp, optimizer, backward } = await lineOf(group);
      weight.assign(tf.tensor1d([10 + group.rank]));
      await ddp.broadcastParameters(src);
      expect(ddp.isModelChanged).toBe(false);
      await backward();
      ddp.step(optimizer);
      return Array.from(weight.dataSync());
    });
    expect(ends).toEqual([[9 + src], [9 + src]]);
  });

  test('are replaced by writeParameters; weights that a step of DDP changes do not count as set', async () => {
    await runWorld(2, async (group) => {
      const { weight, ddp, optimizer, backward } = await lineOf(group);
      weight.assign(tf.tensor1d([10]));
      ddp.writeParameters();
      for (let step = 0; step < 3; step++) {
        await backward();
        ddp.step(optimizer);
        expect(ddp.isModelChanged).toBe(false);
      }
      expect(Array.from(weight.dataSync())).toEqual([-2]);
    });
  });

  test('include buffers, which broadcastBuffers sends to all ranks', async () => {
    const means = await runWorld(2, async (group) => {
      const model = normalized(1);
      const ddp = await DistributedDataParallel.create(model, group);
      const mean = model.weights.find(({ name }) => name.includes('moving_mean'))!.read() as tf.Variable;
      mean.assign(tf.fill(mean.shape, 5 + group.rank));
      expect(ddp.isModelChanged).toBe(true);
      await ddp.broadcastBuffers(1);
      expect(ddp.isModelChanged).toBe(false);
      return mean.dataSync()[0];
    });
    expect(means).toEqual([6, 6]);
  });
});

describe('metrics of a pass', () => {
  test.each([
    ['without', 'fp32'],
    ['with', 'fp16'],
  ] as const)('are averaged over all samples %s a codec, and leave no tensors', async (_, codec) => {
    await runWorld(3, async (group) => {
      const model = normalized(3);
      const ddp = await DistributedDataParallel.create(model, group, { metrics: 2, codec });
      const samples = [3, 0, 1][group.rank]!;
      const inputs = samplesOf(group.rank, 0, samples);
      const metrics = (): tf.Tensor => tf.tensor1d([group.rank, 1]);
      const run = () => ddp.backward({ inputs, loss: meanSquare, metrics }, { samples });
      /** The ranks are in one process, so all of them must be between two passes. */
      const tensorsAtRest = async (): Promise<number> => {
        await group.barrier();
        const { numTensors } = tf.memory();
        await group.barrier();
        return numTensors;
      };
      await run();
      const before = await tensorsAtRest();
      const { metrics: averages } = await run();
      expect(averages[0]).toBeCloseTo(0.5, 6);
      expect(averages[1]).toBeCloseTo(1, 6);
      expect(await tensorsAtRest()).toBe(before);
    });
  });

  test('from noSync are added to those of the next backward', async () => {
    await runWorld(2, async (group) => {
      const model = normalized(3);
      const ddp = await DistributedDataParallel.create(model, group, { metrics: 1 });
      const inputs = samplesOf(group.rank, 0, 2);
      const run = (value: number) =>
        ddp.backward({ inputs, loss: meanSquare, metrics: () => tf.tensor1d([value]) }, { samples: 2 });
      expect((await ddp.noSync(() => run(1))).metrics).toEqual([]);
      expect((await run(4)).metrics).toEqual([2.5]);
    });
  });

  test('are rejected if there are more or fewer than the option says', async () => {
    await runWorld(1, async (group) => {
      const model = normalized(3);
      const ddp = await DistributedDataParallel.create(model, group);
      const inputs = samplesOf(0, 0, 2);
      const before = tf.memory().numTensors;
      const error = await errorOf(
        ddp.backward({ inputs, loss: meanSquare, metrics: () => tf.tensor1d([1, 2]) }, { samples: 2 }),
      );
      expect(error).toBeInstanceOf(UsageError);
      expect(error.message).toContain('The pass has 2 metric(s)');
      expect(tf.memory().numTensors).toBe(before);
    });
  });
});
