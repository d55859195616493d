/** Weights that a wrapper overwrites in place, as it does on WebGPU. */
import * as tf from '@tensorflow/tfjs';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { createOptimizer } from '../../../src/optim/index.ts';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { UsageError } from '../../../src/util/errors.ts';
import { errorOf } from '../../errorOf.ts';
import { registerFakeWebgpu } from '../fakeWebgpu.ts';

beforeAll(registerFakeWebgpu);

afterAll(() => {
  tf.removeBackend('webgpu');
  vi.unstubAllGlobals();
});

describe('two wrappers of one model on WebGPU', () => {
  test('exclude each other: after a step of one, the other one rejects until broadcastParameters', async () => {
    const ends = await runWorld(2, async (group) => {
      // Only data that no other tensor shares are overwritten in place.
      const weight = tf.tidy(() => tf.variable(tf.tensor1d([10])));
      const { dataId } = weight;
      const first = await DistributedDataParallel.create([weight], group);
      const second = await DistributedDataParallel.create([weight], group);
      const optimizer = createOptimizer('sgd', { learningRate: 1 }, 1);
      const stepOf = async (ddp: DistributedDataParallel): Promise<void> => {
        await ddp.backward(() => weight.sum().asScalar(), { samples: 1 });
        ddp.step(optimizer);
        expect(ddp.isModelChanged).toBe(false);
      };
      await stepOf(second);
      await stepOf(second);
      expect(weight.dataId).toBe(dataId);
      expect(first.isModelChanged).toBe(true);
      expect(() => first.step(optimizer)).toThrow(UsageError);
      expect((await errorOf(stepOf(first))).message).toMatch(/was set after .* another wrapper .*broadcastParameters/);
      await first.broadcastParameters(0);
      await stepOf(first);
      return Array.from(weight.dataSync());
    });
    expect(ends).toEqual([[7], [7]]);
  });
});
