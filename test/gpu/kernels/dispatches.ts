import * as tf from '@tensorflow/tfjs';
import { webgpuBackend } from '../../../src/gpu/backend.ts';
import { gpuCommandCountsOf } from '../../../src/gpu/commands.ts';

/** Returns the number of dispatches of `compute`, and disposes its tensors. */
export function dispatchesOf(compute: () => unknown): number {
  const counts = gpuCommandCountsOf(webgpuBackend()!.device)!;
  const before = counts.dispatches;
  tf.tidy(() => {
    compute();
  });
  return counts.dispatches - before;
}
