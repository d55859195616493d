/**
 * Mixed precision (Micikevicius et al., "Mixed Precision Training", 2018; torch: `torch.autocast`):
 * matrix products round their factors to float16 and sum in float32. All tensors stay float32.
 */
import { webgpuBackend } from '../backend.ts';
import { usesOwnKernels } from './registry.ts';

/**
 * The ops of TensorFlow.js have no argument for the precision, so it is a global. It is set only
 * while one function runs without waiting, like the current tidy. `linear` passes it on to its
 * gradient.
 */
let isHalf = false;

/**
 * Whether the current device computes with float16. Every WebGPU device can convert from and to
 * float16, but a device without `shader-f16` may emulate it.
 */
export function supportsHalfPrecision(): boolean {
  return usesOwnKernels() && (webgpuBackend()?.device.features.has('shader-f16') ?? false);
}

/**
 * Runs `compute` with products in float16, until it returns or first waits. On a device without
 * float16 the products stay in float32.
 */
export function inHalfPrecision<T>(compute: () => T): T {
  const before = isHalf;
  isHalf = supportsHalfPrecision();
  try {
    return compute();
  } finally {
    isHalf = before;
  }
}

/** Whether a product that is computed now uses float16. Kernels of matrix products read this. */
export function usesHalfPrecision(): boolean {
  return isHalf;
}
