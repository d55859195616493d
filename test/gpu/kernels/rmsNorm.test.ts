import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { chooseWebGpuKernels } from '../../../src/gpu/kernels/index.ts';
import { rmsNorm, rmsNormResidual } from '../../../src/gpu/kernels/rmsNorm.ts';
import { createRng } from '../../../src/util/rng.ts';
import { webgpuBackend } from '../../../src/gpu/backend.ts';
import { gpuCommandCountsOf } from '../../../src/gpu/commands.ts';
import { expectEqualBits, expectEqualsCpu, expectFiniteDifferences, uniform, type Op } from './compare.ts';
import { ADAPTER_KINDS, useAdapter } from './adapters.ts';

const EPSILON = 1e-5;
const norm: Op = (x, scale) => rmsNorm(x, scale, EPSILON);

const residual: Op = (x, scale) => {
  const [normed, passed] = rmsNormResidual(x, scale, EPSILON);
  return normed.add(passed.mul(0.5));
};

describe.each(ADAPTER_KINDS)('on a %s adapter', (kind) => {
  useAdapter(kind);

  test('rmsNorm and its gradients equal those of the CPU backend for 50 shapes', async () => {
    const rng = createRng(1);
    // With one channel, gradients are differences of equal numbers.
    const shapes = Array.from({ length: 46 }, () => [1 + rng.below(70), 2 + rng.below(150)]);
    for (const shape of [[1, 2], [3, 5, 64], [2, 9001], [70_000, 3], ...shapes]) {
      await expectEqualsCpu(norm, [uniform(rng, ...shape), uniform(rng, shape.at(-1)!)]);
    }
  });

  test('the gradients of rmsNorm equal finite differences', async () => {
    const rng = createRng(2);
    await expectFiniteDifferences(norm, [uniform(rng, 5, 12), uniform(rng, 12)]);
  });

  test('rmsNorm has the same bits in every run', async () => {
    const rng = createRng(3);
    await expectEqualBits(norm, [uniform(rng, 100, 68), uniform(rng, 68)]);
  });

  test('rmsNormResidual and its gradients equal those of the CPU backend', async () => {
    const rng = createRng(4);
    for (const shape of [
      [1, 2],
      [3, 5, 64],
      [31, 37],
    ]) {
      await expectEqualsCpu(residual, [uniform(rng, ...shape), uniform(rng, shape.at(-1)!)]);
    }
    await expectFiniteDifferences(residual, [uniform(rng, 5, 12), uniform(rng, 12)]);
    await expectEqualBits(residual, [uniform(rng, 9, 12), uniform(rng, 12)]);
  });

  test('rmsNorm takes one dispatch, and more with stock kernels', () => {
    const x = tf.ones([7, 130]);
    const scale = tf.ones([130]);
    const dispatches = (): number => {
      const counts = gpuCommandCountsOf(webgpuBackend()!.device)!;
      const before = counts.dispatches;
      rmsNorm(x, scale, 1e-5).dispose();
      return counts.dispatches - before;
    };
    expect(dispatches()).toBe(1);
    chooseWebGpuKernels('stock');
    expect(dispatches()).toBeGreaterThan(1);
    chooseWebGpuKernels('own');
    tf.dispose([x, scale]);
  });
});
