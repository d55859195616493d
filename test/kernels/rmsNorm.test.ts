import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { useKernels } from '../../src/kernels/index.ts';
import { rmsNorm } from '../../src/kernels/rmsNorm.ts';
import { webgpuBackend } from '../../src/webgpu/backend.ts';
import { commandCounts } from '../../src/webgpu/commands.ts';

test('rmsNorm takes one dispatch, and more with stock kernels', () => {
  const x = tf.ones([7, 130]);
  const scale = tf.ones([130]);
  const dispatches = (): number => {
    const counts = commandCounts(webgpuBackend()!.device)!;
    const before = counts.dispatches;
    rmsNorm(x, scale, 1e-5).dispose();
    return counts.dispatches - before;
  };
  expect(dispatches()).toBe(1);
  useKernels('stock');
  expect(dispatches()).toBeGreaterThan(1);
  useKernels('own');
  tf.dispose([x, scale]);
});
