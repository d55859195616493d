/** Gradient accumulation. */
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { createOptimizer } from '../../../src/optim/index.ts';
import { allReduceHook } from '../../../src/parallel/ddp/commHooks.ts';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { UsageError } from '../../../src/util/errors.ts';
import { line, meanSquare, mlp, relativeDifference, samplesOf, weightsOf } from '../models.ts';

describe('noSync', () => {
  test.each([1, 2, 3, 4])('with a reduction after several passes equals one large batch on %i ranks', async (n) => {
    const passes = 3;
    for (const hooked of [false, true]) {
      const states = await runWorld(n, async (group) => {
        const model = mlp(1);
        const ddp = await DistributedDataParallel.create(model, group, { firstBucketBytes: 4, bucketCapBytes: 32 });
        if (hooked) ddp.registerCommHook(allReduceHook);
        const optimizer = createOptimizer('adam', { learningRate: 0.01 }, ddp.layout.size);
        const losses: number[] = [];
        for (let step = 0; step < 2; step++) {
          const pass = (k: number) => {
            const samples = group.rank + k + 1;
            const inputs = samplesOf(group.rank, step * passes + k, samples);
            return ddp.backward({ inputs, loss: meanSquare }, { samples });
          };
          await ddp.noSync(async () => {
            for (let k = 0; k < passes - 1; k++) await pass(k);
          });
          losses.push((await pass(passes - 1)).loss);
          ddp.step(optimizer);
        }
        return [...weightsOf(model), ...losses];
      });
      const [one] = await runWorld(1, async (group) => {
        const model = mlp(1);
        const ddp = await DistributedDataParallel.create(model, group);
        const optimizer = createOptimizer('adam', { learningRate: 0.01 }, ddp.layout.size);
        const losses: number[] = [];
        for (let step = 0; step < 2; step++) {
          const parts = Array.from({ length: n * passes }, (_, i) => {
            const [rank, k] = [Math.floor(i / passes), i % passes];
            return samplesOf(rank, step * passes + k, rank + k + 1);
          });
          const inputs = tf.concat(parts);
          losses.push((await ddp.backward({ inputs, loss: meanSquare }, { samples: inputs.shape[0] })).loss);
          ddp.step(optimizer);
        }
        return [...weightsOf(model), ...losses];
      });
      for (const state of states) expect(state).toEqual(states[0]);
      expect(relativeDifference(states[0]!, one!)).toBeLessThan(1e-5);
    }
  });

  test("returns this rank's own loss and samples, sends nothing, and does not change the gradient", async () => {
    await runWorld(2, async (group) => {
      const [weight, bias] = line(2);
      const ddp = await DistributedDataParallel.create([weight, bias], group);
      const pass = (scale: number, samples: number) =>
        ddp.backward(() => weight.mul(scale).add(bias).sum().asScalar(), { samples });
      await pass(1, 1);
      const before = group.bytesSent;
      const { loss, samples, bytesSent } = await ddp.noSync(() => pass(3 + group.rank, 2));
      expect({ loss, samples, bytesSent }).toEqual({ loss: 6 + 2 * group.rank, samples: 2, bytesSent: 0 });
      expect(group.bytesSent).toBe(before);
      expect(Array.from(ddp.gradient)).toEqual([1, 1]);
    });
  });

  test('keeps gradients until the next reduction, even on a rank without samples then', async () => {
    await runWorld(2, async (group) => {
      const [weight, bias] = line(2);
      const ddp = await DistributedDataParallel.create([weight, bias], group);
      const pass = (scale: number, samples: number) =>
        ddp.backward(() => weight.mul(scale).add(bias).sum().asScalar(), { samples });
      await ddp.noSync(() => pass(10, 1 - group.rank));
      const { samples, loss } = await pass(4, group.rank);
      expect({ samples, loss }).toEqual({ samples: 2, loss: 14 });
      expect(Array.from(ddp.gradient)).toEqual([1, 7]);
      await pass(5, 1);
      expect(Array.from(ddp.gradient)).toEqual([1, 5]);
    });
  });

  test('with average: ranks adds the averages of all passes, as PyTorch does', async () => {
    await runWorld(2, async (group) => {
      const [weight, bias] = line(2);
      const ddp = await DistributedDataParallel.create([weight, bias], group, { average: 'ranks' });
      const pass = (scale: number) =>
        ddp.backward(() => weight.mul(scale).add(bias).sum().asScalar(), { samples: 1 + scale });
      await ddp.noSync(() => pass(1 + group.rank));
      await pass(10);
      expect(Array.from(ddp.gradient)).toEqual([2, 11.5]);
    });
  });

  test('can be nested, and restores the previous mode even after an error', async () => {
    await runWorld(1, async (group) => {
      const [weight, bias] = line(2);
      const ddp = await DistributedDataParallel.create([weight, bias], group);
      const pass = () => ddp.backward(() => weight.add(bias).sum().asScalar(), { samples: 1 });
      const inner = await ddp.noSync(async () => {
        await ddp.noSync(pass);
        await pass();
        return 'inner';
      });
      expect(inner).toBe('inner');
      await expect(ddp.noSync(() => Promise.reject(new Error('stopped')))).rejects.toThrow('stopped');
      expect((await pass()).samples).toBe(3);
    });
  });

  test('makes clipGradNorm and step throw until the kept gradients are reduced', async () => {
    await runWorld(1, async (group) => {
      const [weight, bias] = line(2);
      const ddp = await DistributedDataParallel.create([weight, bias], group);
      const optimizer = createOptimizer('sgd', { learningRate: 1 }, ddp.layout.size);
      const pass = () => ddp.backward(() => weight.add(bias).sum().asScalar(), { samples: 1 });
      await ddp.noSync(pass);
      expect(() => {
        ddp.step(optimizer);
      }).toThrow(UsageError);
      expect(() => ddp.clipGradNorm(1)).toThrow('Call backward outside noSync first');
      await pass();
      ddp.step(optimizer);
      expect(weight.dataSync()[0]).toBe(1);
    });
  });
});
