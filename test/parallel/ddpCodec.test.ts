/** DDP whose buckets travel encoded. */
import * as tf from '@tensorflow/tfjs';
import { beforeAll, describe, expect, test } from 'vitest';
import { allReduceHook } from '../../src/parallel/commHooks.ts';
import { DistributedDataParallel } from '../../src/parallel/ddp.ts';
import type { DistributedDataParallelOptions } from '../../src/parallel/ddpOptions.ts';
import { runWorld } from '../../src/testing/index.ts';
import { MismatchError, UsageError } from '../../src/util/errors.ts';
import { createRng } from '../../src/util/rng.ts';
import { line, meanSquare, mlp, rejection, samplesOf } from './models.ts';

beforeAll(async () => {
  await tf.setBackend('cpu');
});

const BUCKETS = { firstBucketBytes: 4, bucketCapBytes: 32 };

/** Gradients of so many passes by 3 ranks, of other numbers of samples each. */
function gradientsOf(options: DistributedDataParallelOptions, passes = 3): Promise<Float32Array[][]> {
  return runWorld(3, async (group) => {
    const model = mlp(1);
    const ddp = await DistributedDataParallel.create(model, group, { ...BUCKETS, ...options });
    const gradients = [];
    for (let pass = 0; pass < passes; pass++) {
      const inputs = samplesOf(group.rank, pass, 2 + group.rank);
      const { samples } = await ddp.backward(() => meanSquare(model.apply(inputs) as tf.Tensor), {
        samples: inputs.shape[0],
      });
      // The tally is not rounded.
      expect(samples).toBe(9);
      gradients.push(ddp.gradient.slice());
    }
    return gradients;
  });
}

describe.each(['fp16', 'int8'] as const)('%s', (codec) => {
  test('gives all ranks the same gradients, near those of fp32', async () => {
    const [plain] = await gradientsOf({});
    const encoded = await gradientsOf({ codec });
    for (const gradients of encoded) expect(gradients).toEqual(encoded[0]);
    plain!.forEach((gradient, pass) => {
      const largest = gradient.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
      gradient.forEach((value, i) => {
        expect(Math.abs(encoded[0]![pass]![i]! - value)).toBeLessThan(largest / 25);
      });
    });
  });

  test('counts its own bytes', async () => {
    await runWorld(2, async (group) => {
      const plain = await DistributedDataParallel.create(mlp(1, { units: 400 }), group);
      const ddp = await DistributedDataParallel.create(mlp(1, { units: 400 }), group, { codec });
      expect(plain.gradientBytes / ddp.gradientBytes).toBeGreaterThan(codec === 'fp16' ? 1.99 : 3.7);
      const buckets = ddp.bucketBytes.reduce((sum, bytes) => sum + bytes, 0);
      // The tally: loss and samples.
      expect(ddp.gradientBytes).toBe(buckets + 8);
    });
  });
});

test('error feedback makes the mean of many steps right; without it the same is lost every time', async () => {
  const rng = createRng(3);
  // One value of each rank's chunk is so large that the others are less than half a scale.
  const slopes = Float32Array.from({ length: 20 }, (_, i) => (i % 10 === 0 ? 1000 : rng.next()));
  const meanOf = async (errorFeedback: boolean): Promise<number[]> => {
    const [mean] = await runWorld(2, async (group) => {
      const weights = tf.variable(tf.zeros([20]));
      const ddp = await DistributedDataParallel.create([weights], group, { codec: 'int8', errorFeedback });
      const sum = new Float64Array(20);
      for (let step = 0; step < 100; step++) {
        await ddp.backward(() => weights.mul(tf.tensor1d(slopes)).sum().asScalar(), { samples: 1 });
        ddp.gradient.forEach((value, i) => (sum[i]! += value / 100));
      }
      return Array.from(sum);
    });
    return mean!;
  };
  const [fed, apart] = [await meanOf(true), await meanOf(false)];
  slopes.forEach((slope, i) => {
    expect(Math.abs(fed[i]! - slope)).toBeLessThan(0.15);
    if (slope < 1) expect(apart[i]).toBe(0);
  });
});

test('what was lost of a parameter that no rank uses waits for the step that does', async () => {
  await runWorld(2, async (group) => {
    // In the flat gradient, a large value beside each small one.
    const [first, small, last] = [1, 2, 1].map((size) => tf.variable(tf.zeros([size])));
    const options = { codec: 'int8', findUnusedParameters: true } as const;
    const ddp = await DistributedDataParallel.create([first!, small!, last!], group, options);
    const gradientOf = async (usesSmall: boolean): Promise<number> => {
      const pass = (): tf.Scalar => {
        const before = first!.mul(1000).asScalar();
        const between = usesSmall ? before.add(small!.mul(3).sum()) : before;
        return between.add(last!.mul(1000)).asScalar();
      };
      await ddp.backward(pass, { samples: 1 });
      const { offset } = ddp.layout.slots.find(({ parameter }) => parameter === 1)!;
      return ddp.gradient[offset]!;
    };
    // Of 3 beside 1000, nothing is left; twice 3 are more than half a scale of 8.
    expect(await gradientOf(true)).toBe(0);
    expect(await gradientOf(false)).toBe(0);
    expect(await gradientOf(true)).toBeGreaterThan(7);
  });
});

test('forgets what was lost where it is told so', async () => {
  await runWorld(2, async (group) => {
    const weights = tf.variable(tf.zeros([4]));
    const ddp = await DistributedDataParallel.create([weights], group, { codec: 'int8' });
    const slopes = tf.tensor1d([1000, 3, 3, 1000]);
    for (let step = 0; step < 3; step++) {
      await ddp.backward(() => weights.mul(slopes).sum().asScalar(), { samples: 1 });
      expect(ddp.gradient[1]).toBe(0);
      ddp.forgetLosses();
    }
  });
});

test('is named where ranks name different ones, and takes no hook beside it', async () => {
  const errors = await runWorld(2, (group) =>
    rejection(DistributedDataParallel.create(line(1), group, { codec: group.rank === 1 ? 'int8' : 'fp16' })),
  );
  for (const error of errors) {
    expect(error).toBeInstanceOf(MismatchError);
    expect(error.message).toContain('"codec":"int8"');
  }
  await runWorld(1, async (group) => {
    const ddp = await DistributedDataParallel.create(line(1), group, { codec: 'int8' });
    expect(() => ddp.registerCommHook(allReduceHook)).toThrow(UsageError);
  });
});
