import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { clipGradNorm } from '../../../src/parallel/flat/clip.ts';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { UsageError } from '../../../src/util/errors.ts';
import { meanSquare, mlp, samplesOf } from '../models.ts';

const whole = (gradient: Float32Array) => [{ start: 0, end: gradient.length }];

describe('clipGradNorm', () => {
  test.each([
    // PyTorch scales by maxNorm / (norm + 1e-6), at most by 1.
    [[3, 4], 1, 5, [0.59999988, 0.79999984]],
    [[3, 4], 5, 5, [2.9999994, 3.9999992]],
    [[3, 4], 6, 5, [3, 4]],
    [[3, 4], 0, 5, [0, 0]],
    [[0, 0], 1, 0, [0, 0]],
    [[3, 4], Infinity, 5, [3, 4]],
    [[], 1, 0, []],
  ])('clips the gradient %o to the norm %d, like PyTorch', (values, maxNorm, norm, expected) => {
    const gradient = Float32Array.from(values);
    expect(clipGradNorm(gradient, whole(gradient), maxNorm)).toBe(norm);
    expect(gradient).toEqual(Float32Array.from(expected));
  });

  test('measures and scales only the given ranges', () => {
    const gradient = Float32Array.of(3, 100, 4, 100);
    const ranges = [
      { start: 0, end: 1 },
      { start: 2, end: 3 },
    ];
    expect(clipGradNorm(gradient, ranges, 2.5)).toBe(5);
    expect(gradient).toEqual(Float32Array.of(1.4999997, 100, 1.9999996, 100));
  });

  test('returns NaN for a value that is not finite, like PyTorch', () => {
    for (const value of [NaN, Infinity]) {
      const gradient = Float32Array.of(1, value);
      expect(clipGradNorm(gradient, whole(gradient), 1)).toBe(value);
      expect(gradient[1]).toBeNaN();
    }
  });

  test.each([-1, NaN])('rejects the maximum norm %d', (maxNorm) => {
    expect(() => clipGradNorm(Float32Array.of(1), [{ start: 0, end: 1 }], maxNorm)).toThrow(UsageError);
  });

  test.each([1, 2, 4])('returns the same bits on all of %i ranks', async (n) => {
    const results = await runWorld(n, async (group) => {
      const ddp = await DistributedDataParallel.create(mlp(2), group);
      await ddp.backward({ inputs: samplesOf(group.rank, 0, 5), loss: meanSquare }, { samples: 5 });
      const norm = ddp.clipGradNorm(0.01);
      return [norm, Math.hypot(...ddp.gradient), ...ddp.gradient];
    });
    for (const result of results) expect(result).toEqual(results[0]);
    expect(results[0]![0]).toBeGreaterThan(0.01);
    expect(results[0]![1]).toBeCloseTo(0.01, 5);
  });

  test('ignores parameters that no rank has used', async () => {
    await runWorld(2, async (group) => {
      const [a, b] = [tf.variable(tf.scalar(1)), tf.variable(tf.scalar(1))];
      const ddp = await DistributedDataParallel.create([a, b], group, { findUnusedParameters: true });
      await ddp.backward(() => a.mul(3).add(b.mul(4)).asScalar(), { samples: 1 });
      expect(ddp.clipGradNorm(10)).toBe(5);
      await ddp.backward(() => a.mul(2).asScalar(), { samples: 1 });
      expect(ddp.clipGradNorm(1)).toBe(2);
      expect(new Set(ddp.gradient)).toEqual(new Set([Math.fround(2 / (2 + 1e-6)), 4]));
    });
  });
});
