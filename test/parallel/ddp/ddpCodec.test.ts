/** DDP with encoded buckets. */
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test, vi } from 'vitest';
import { allReduceHook, type CommHook } from '../../../src/parallel/ddp/commHooks.ts';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import type { DistributedDataParallelOptions } from '../../../src/parallel/ddp/options.ts';
import { createPowerSgdHook } from '../../../src/parallel/ddp/powerSgd.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { MismatchError, UsageError } from '../../../src/util/errors.ts';
import { createRng } from '../../../src/util/rng.ts';
import { errorOf } from '../../errorOf.ts';
import { line, meanSquare, mlp, samplesOf } from '../models.ts';

const BUCKETS = { firstBucketBytes: 4, bucketCapBytes: 32 };

/** Gradients of `passes` passes of 3 ranks with different numbers of samples. */
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

describe.each(['fp16', 'int8'] as const)('the codec %s', (codec) => {
  test('gives all ranks the same gradients, close to those with fp32', async () => {
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

  test('reports the bytes of the encoded gradient', async () => {
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

test('the mean gradient of many steps is exact with error feedback; without it, every step has the same error', async () => {
  const rng = createRng(3);
  // One value of each rank's chunk is so large that the other values are less than half a
  // quantization step.
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

/**
 * Returns, after each step, the distance between the sum of applied gradients and the sum of the
 * true means. The numbers of samples are given by step and rank.
 */
async function driftOf(
  options: DistributedDataParallelOptions,
  makeHook: (() => CommHook) | null,
  sizes: number[],
): Promise<number[]> {
  const shape: [number, number] = [64, 48];
  const length = 64 * 48;
  const [drift] = await runWorld(2, async (group) => {
    const weights = tf.variable(tf.zeros(shape));
    const ddp = await DistributedDataParallel.create([weights], group, options);
    if (makeHook) ddp.registerCommHook(makeHook());
    const missing = new Float64Array(length);
    const drifts: number[] = [];
    for (const [step, samples] of sizes.entries()) {
      const common = createRng(1000 * step + 7);
      const own = [0, 1].map((rank) => createRng(1000 * step + 13 + rank));
      // The mean gradient has norm 32 for any number of samples. The gradients of ranks differ a
      // little.
      const slopes = [0, 1].map(() => new Float32Array(length));
      for (let i = 0; i < length; i++) {
        const shared = 2 * common.next() - 1;
        for (const rank of [0, 1]) slopes[rank]![i] = shared + 0.1 * (2 * own[rank]!.next() - 1);
      }
      const slope = tf.tensor2d(slopes[group.rank]!, shape);
      await ddp.backward(() => weights.mul(slope).sum().asScalar(), { samples });
      slope.dispose();
      ddp.gradient.forEach((value, i) => (missing[i]! += value - (slopes[0]![i]! + slopes[1]![i]!) / 2));
      drifts.push(Math.hypot(...missing));
    }
    return drifts;
  });
  return drift!;
}

const powerSgd = (): CommHook => createPowerSgdHook({ matrixApproximationRank: 2, startPowerSgdIter: 0 });

describe('a step with few samples among steps with many', () => {
  const EQUAL = [256, 256, 256, 256, 256, 256];
  const UNEQUAL = [256, 256, 2, 256, 2, 256];

  test.each([
    ['int8', { codec: 'int8' as const }, null, 0.15],
    ['fp16', { codec: 'fp16' as const }, null, 0.0075],
    ['PowerSGD', {}, powerSgd, 120],
    ['PowerSGD with unused parameters', { findUnusedParameters: true }, powerSgd, 120],
  ])(
    'leaves no larger residual with %s than steps that all have many samples',
    async (_name, options, makeHook, most) => {
      const equal = await driftOf(options, makeHook, EQUAL);
      const unequal = await driftOf(options, makeHook, UNEQUAL);
      for (const drift of unequal) expect(drift).toBeLessThan(most);
      // The remaining drift depends on the values only, not on the number of samples.
      expect(unequal.at(-1)!).toBeLessThan(1.05 * equal.at(-1)!);
    },
  );

  test('has the same result with and without totalSamples', async () => {
    const gradients = await runWorld(2, async (group) => {
      const made = [];
      for (const totalSamples of [undefined, 3]) {
        const model = mlp(1);
        const ddp = await DistributedDataParallel.create(model, group, { codec: 'int8' });
        const inputs = samplesOf(group.rank, 0, 1 + group.rank);
        const options = { samples: inputs.shape[0], ...(totalSamples !== undefined && { totalSamples }) };
        await ddp.backward(() => meanSquare(model.apply(inputs) as tf.Tensor), options);
        made.push(ddp.gradient.slice());
      }
      return made;
    });
    for (const [counted, known] of gradients) expect(known).toEqual(counted);
  });

  test('fails on every rank if one rank passes a wrong totalSamples', async () => {
    const errors = await runWorld(2, async (group) => {
      const [weight, bias] = line(1);
      const ddp = await DistributedDataParallel.create([weight, bias], group, { codec: 'int8' });
      const backward = (totalSamples: number) =>
        ddp.backward(() => weight.add(bias).sum().asScalar(), { samples: 2, totalSamples });
      // The other rank divides by the right total, and receives the error in its next step at the
      // latest.
      if (group.rank === 0) return errorOf(backward(4).then(() => backward(4)));
      return errorOf(backward(8));
    });
    expect(errors[1]).toBeInstanceOf(MismatchError);
    for (const error of errors) expect(error.message).toContain('totalSamples is 8 on rank 1');
  });

  test('accepts a totalSamples that is not a whole number', async () => {
    const gradients = await runWorld(2, async (group) => {
      const [weight, bias] = line(1);
      const ddp = await DistributedDataParallel.create([weight, bias], group, { codec: 'int8' });
      await ddp.backward(() => weight.add(bias).sum().asScalar(), { samples: 0.1, totalSamples: 0.2 });
      return [...ddp.gradient];
    });
    expect(gradients.flat().map((value) => value.toFixed(3))).toEqual(['1.000', '1.000', '1.000', '1.000']);
  });

  test('fails on every rank if totalSamples differs from the sum over ranks', async () => {
    const errors = await runWorld(2, async (group) => {
      const [weight, bias] = line(1);
      const ddp = await DistributedDataParallel.create([weight, bias], group, { codec: 'int8' });
      return errorOf(ddp.backward(() => weight.add(bias).sum().asScalar(), { samples: 2, totalSamples: 5 }));
    });
    for (const error of errors) {
      expect(error).toBeInstanceOf(MismatchError);
      expect(error.message).toContain('All ranks together had 4 samples in this step, but totalSamples is 5 on rank');
    }
  });
});

test('fp16 is accurate for large gradients of large batches', async () => {
  await runWorld(2, async (group) => {
    const gradientOf = async (codec: 'fp32' | 'fp16'): Promise<Float32Array[]> => {
      const weights = tf.variable(tf.zeros([500]));
      const slopes = Float32Array.from({ length: 500 }, (_, i) => 100 - i / 10 - group.rank);
      const ddp = await DistributedDataParallel.create([weights], group, { codec });
      const gradients = [];
      for (const factor of [1, 0.001]) {
        const loss = () => weights.mul(tf.tensor1d(slopes)).sum().mul(factor).asScalar();
        await ddp.backward(loss, { samples: 4096 });
        gradients.push(ddp.gradient.slice());
      }
      return gradients;
    };
    const [plain, encoded] = [await gradientOf('fp32'), await gradientOf('fp16')];
    plain.forEach((gradient, step) => {
      gradient.forEach((value, i) => {
        // The second step is a thousandth of the first, and includes the residual of the first.
        expect(Math.abs(encoded[step]![i]! - value)).toBeLessThan(0.1);
        if (step === 0) expect(Math.abs(encoded[0]![i]! / value - 1)).toBeLessThan(1e-3);
      });
    });
  });
});

test('a step that fails after the reduction keeps the previous residual', async () => {
  const [first] = await runWorld(2, async (group) => {
    const weights = tf.variable(tf.zeros([4]));
    const buffer = tf.variable(tf.zeros([1]), false);
    const options = { codec: 'int8', keepGradients: true } as const;
    const ddp = await DistributedDataParallel.create([weights, buffer], group, options);
    const backward = async (slopes: number[], endsEarly = false): Promise<Float32Array> => {
      const pass = (): tf.Scalar => {
        // Buffers are broadcast after the gradients.
        buffer.assign(buffer.add(1));
        return weights.mul(tf.tensor1d(slopes)).sum().asScalar();
      };
      if (endsEarly) {
        const broadcast = group.broadcast.bind(group);
        vi.spyOn(group, 'broadcast').mockImplementation((...args) => {
          group.abort(new Error('over'));
          return broadcast(...args);
        });
      }
      const reduced = ddp.backward(pass, { samples: 1 });
      if (endsEarly) await errorOf(reduced);
      else await reduced;
      return ddp.gradient.slice();
    };
    // Next to 1000, the codec rounds 3 to 0.
    expect((await backward([1000, 3, 3, 1000]))[1]).toBe(0);
    // Without the residual it would be sent.
    await backward([0, 0, 0, 0], true);
    return { ddp, weights };
  });
  const { ddp, weights } = first!;
  await runWorld(1, async (group) => {
    ddp.dropGradients();
    ddp.regroup(group);
    await ddp.backward(() => weights.mul(0).sum().asScalar(), { samples: 1 });
    // This rank's half of an average of 3.
    expect(ddp.gradient[1]).toBe(1.5);
  });
});

test('the residual of a parameter is kept while no rank uses the parameter', async () => {
  await runWorld(2, async (group) => {
    // In the flat gradient, a large value is next to each small value.
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
    // Next to 1000, the codec rounds 3 to 0. Twice 3 is more than half a quantization step of 8.
    expect(await gradientOf(true)).toBe(0);
    expect(await gradientOf(false)).toBe(0);
    expect(await gradientOf(true)).toBeGreaterThan(7);
  });
});

test('resetErrorFeedback drops residuals', async () => {
  await runWorld(2, async (group) => {
    const weights = tf.variable(tf.zeros([4]));
    const ddp = await DistributedDataParallel.create([weights], group, { codec: 'int8' });
    const slopes = tf.tensor1d([1000, 3, 3, 1000]);
    for (let step = 0; step < 3; step++) {
      await ddp.backward(() => weights.mul(slopes).sum().asScalar(), { samples: 1 });
      expect(ddp.gradient[1]).toBe(0);
      ddp.resetErrorFeedback();
    }
  });
});

test('ranks with different codecs are rejected with their names, and so is a codec together with a hook', async () => {
  const errors = await runWorld(2, (group) =>
    errorOf(DistributedDataParallel.create(line(1), group, { codec: group.rank === 1 ? 'int8' : 'fp16' })),
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
