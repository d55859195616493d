/** TensorFlow.js's WebAssembly backend with kernels for training. */
import * as tf from '@tensorflow/tfjs';
import { registerTrainingKernels } from './wasmKernels.ts';

/**
 * Makes WebAssembly the backend of TensorFlow.js, if `@tensorflow/tfjs-backend-wasm` is imported.
 * Returns whether that succeeded.
 */
export async function useWasm(): Promise<boolean> {
  if (!tf.findBackendFactory('wasm')) return false;
  registerTrainingKernels();
  return tf.setBackend('wasm').catch(() => false);
}
