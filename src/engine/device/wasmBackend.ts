/** TensorFlow.js's WebAssembly backend with kernels for training. */
import * as tf from '@tensorflow/tfjs';
import { registerTrainingKernels } from './wasmKernels.ts';

/** Registers the kernels, and returns `true`, if `@tensorflow/tfjs-backend-wasm` is imported. */
export function prepareWasm(): boolean {
  const isImported = tf.findBackendFactory('wasm') !== null;
  if (isImported) registerTrainingKernels();
  return isImported;
}

/**
 * Makes WebAssembly the backend of TensorFlow.js, if `@tensorflow/tfjs-backend-wasm` is imported.
 * Returns whether that succeeded.
 */
export async function useWasm(): Promise<boolean> {
  return prepareWasm() && tf.setBackend('wasm').catch(() => false);
}
