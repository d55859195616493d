import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import type { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import { createOptimizer } from '../../../src/optim/index.ts';
import {
  allReduceHook,
  fp16Hook,
  noopHook,
  type CommHook,
  type GradBucket,
} from '../../../src/parallel/ddp/commHooks.ts';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { UsageError } from '../../../src/util/errors.ts';
import { line, meanSquare, mlp, normalized, relativeDifference, samplesOf, weightsOf } from '../models.ts';

/** Gathers the buckets and sums them in rank order: several collectives, one after the other. */
const gatherHook: CommHook = async ({ buffer }, group) => {
  const parts = await group.allGather(buffer);
  buffer.fill(0);
  for (const part of parts) for (let i = 0; i < part.length; i++) buffer[i]! += part[i]!;
  await group.barrier();
  await group.broadcast(buffer, group.worldSize - 1);
};

const SMALL_BUCKETS = { firstBucketBytes: 4, bucketCapBytes: 32 };

/** Trains the mlp for some steps with batches of different sizes. Returns all ranks' weights. */
async function train(n: number, hook: CommHook | null, model = mlp): Promise<number[][]> {
  return runWorld(n, async (group) => {
    const replica = model(1 + group.rank);
    const ddp = await DistributedDataParallel.create(replica, group, SMALL_BUCKETS);
    if (hook) ddp.registerCommHook(hook);
    const optimizer = createOptimizer('momentum', { learningRate: 0.05 }, ddp.layout.size);
    for (let step = 0; step < 4; step++) {
      const samples = (group.rank + step) % 3;
      await ddp.backward({ inputs: samplesOf(group.rank, step, samples), loss: meanSquare }, { samples });
      ddp.step(optimizer);
    }
    return weightsOf(replica);
  });
}

describe('a communication hook', () => {
  describe.each([1, 2, 3, 4])('on %i ranks', (n) => {
    test.each([
      ['all-reduces', allReduceHook],
      ['issues several collectives', gatherHook],
    ])('that %s keeps replicas equal, and equals training without a hook up to rounding', async (_what, hook) => {
      for (const model of [mlp, normalized]) {
        const [plain] = await train(n, null, model);
        const hooked = await train(n, hook, model);
        for (const weights of hooked) expect(weights).toEqual(hooked[0]);
        expect(relativeDifference(hooked[0]!, plain!)).toBeLessThan(1e-5);
      }
    });
  });

  test('receives all buckets in order, with weighted gradients and a description of the parameters', async () => {
    const samples = [1, 3];
    await runWorld(2, async (group) => {
      const parameters = [
        tf.variable(tf.zeros([2, 2])),
        tf.variable(tf.zeros([3])),
        tf.variable(tf.scalar(0)),
      ] as const;
      const ddp = await DistributedDataParallel.create(parameters, group, { firstBucketBytes: 4, bucketCapBytes: 100 });
      const seen: (Omit<GradBucket, 'buffer'> & { values: number[] })[] = [];
      ddp.registerCommHook(async ({ buffer, ...bucket }, givenGroup) => {
        expect(givenGroup).toBe(group);
        seen.push({ ...bucket, values: Array.from(buffer) });
        buffer.fill(bucket.index + 7);
      });
      const [a, b, c] = parameters;
      const loss = (): tf.Scalar => tf.addN([a.mul(2).sum(), b.mul(4).sum(), c.mul(8).sum()]).asScalar();
      const reduced = await ddp.backward(loss, { samples: samples[group.rank]! });
      const weight = samples[group.rank]! / 4;
      expect(seen).toEqual([
        {
          index: 0,
          isLast: false,
          isRetry: false,
          parameters: [{ index: 2, offset: 0, shape: [], isUsed: true }],
          values: [8 * weight],
        },
        {
          index: 1,
          isLast: true,
          isRetry: false,
          parameters: [
            { index: 1, offset: 0, shape: [3], isUsed: true },
            { index: 0, offset: 3, shape: [2, 2], isUsed: true },
          ],
          values: [4, 4, 4, 2, 2, 2, 2].map((value) => value * weight),
        },
      ]);
      expect(Array.from(ddp.gradient)).toEqual([7, 8, 8, 8, 8, 8, 8, 8]);
      expect(reduced).toMatchObject({ samples: 4, traces: [] });
    });
  });

  test('receives gradients divided by the world size with average: ranks', async () => {
    await runWorld(4, async (group) => {
      const [weight, bias] = line(1);
      const ddp = await DistributedDataParallel.create([weight, bias], group, { average: 'ranks' });
      ddp.registerCommHook(allReduceHook);
      const loss = (): tf.Scalar => weight.mul(group.rank).add(bias).sum().asScalar();
      const reduced = await ddp.backward(loss, { samples: group.rank + 1 });
      expect(Array.from(ddp.gradient)).toEqual([1, 1.5]);
      expect(reduced.loss).toBe(1.5);
    });
  });

  test('gets the next bucket only after it has ended for the previous one', async () => {
    await runWorld(2, async (group) => {
      const ddp = await DistributedDataParallel.create(mlp(1), group, SMALL_BUCKETS);
      let running = 0;
      let runs = 0;
      ddp.registerCommHook(async (bucket) => {
        expect(running++).toBe(0);
        // Durations differ between ranks.
        if ((bucket.index + group.rank) % 2 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
        await gatherHook(bucket, group);
        running--;
        runs++;
      });
      await ddp.backward({ inputs: samplesOf(0, 0, 2), loss: meanSquare }, { samples: 2 });
      expect(runs).toBe(ddp.layout.buckets.length);
      expect(runs).toBeGreaterThan(2);
    });
  });

  test('can be registered only once', async () => {
    await runWorld(1, async (group) => {
      const ddp = await DistributedDataParallel.create(line(1), group);
      ddp.registerCommHook(noopHook);
      expect(() => {
        ddp.registerCommHook(allReduceHook);
      }).toThrow(UsageError);
    });
  });

  test('that fails makes backward fail', async () => {
    await runWorld(1, async (group) => {
      const [weight, bias] = line(1);
      const ddp = await DistributedDataParallel.create([weight, bias], group);
      ddp.registerCommHook(() => Promise.reject(new Error('no such codec')));
      const failing = ddp.backward(() => weight.add(bias).sum().asScalar(), { samples: 1 });
      await expect(failing).rejects.toThrow('no such codec');
    });
  });
});

test('noopHook leaves each rank with its own weighted gradient', async () => {
  await runWorld(2, async (group) => {
    const [weight, bias] = line(1);
    const ddp = await DistributedDataParallel.create([weight, bias], group);
    ddp.registerCommHook(noopHook);
    await ddp.backward(
      () =>
        weight
          .mul(group.rank + 3)
          .add(bias)
          .sum()
          .asScalar(),
      { samples: 1 },
    );
    expect(Array.from(ddp.gradient)).toEqual([0.5, (group.rank + 3) / 2]);
  });
});

describe('fp16Hook', () => {
  test('sends and receives float16 numbers', async () => {
    const buffer = Float32Array.of(1, -2.5, 1 / 3, 65504, 1e6, 2 ** -24, 0);
    const bits = [0x3c00, 0xc100, 0x3555, 0x7bff, 0x7c00, 0x0001, 0x0000];
    const calls: unknown[] = [];
    const group = {
      allReduce: (halves: Uint16Array, options: object): Promise<void> => {
        calls.push(halves.slice(), options);
        // Another rank adds one to the first value.
        halves[0] = 0x4000;
        return Promise.resolve();
      },
    } as unknown as ProcessGroup;
    await fp16Hook({ index: 3, isLast: true, isRetry: false, buffer, parameters: [] }, group);
    expect(calls).toEqual([Uint16Array.from(bits), { dtype: 'float16', bucket: 3 }]);
    expect(buffer).toEqual(Float32Array.of(2, -2.5, 0.333251953125, 65504, Infinity, 2 ** -24, 0));
  });

  test.each([1, 2, 3, 4])(
    'keeps replicas equal on %i ranks, and equals training without a hook up to float16 rounding',
    async (n) => {
      const [plain] = await train(n, null);
      const halved = await train(n, fp16Hook);
      for (const weights of halved) expect(weights).toEqual(halved[0]);
      expect(relativeDifference(halved[0]!, plain!)).toBeLessThan(1e-2);
    },
  );
});
