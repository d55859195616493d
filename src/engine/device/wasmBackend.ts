/** TensorFlow.js's WebAssembly backend with kernels for training. */
import * as tf from '@tensorflow/tfjs';
import { wasmBackend } from '../../wasm/backend.ts';
import { observeWasmKernels } from '../../wasm/recording.ts';
import { registerWasmTrainingKernels } from './wasmKernels.ts';
import { javascriptKernelNames } from './wasmRegistry.ts';

/** Registers the kernels, and returns true, if `@tensorflow/tfjs-backend-wasm` is imported. */
export function prepareWasmBackend(): boolean {
  if (tf.findBackendFactory('wasm') === null) return false;
  // TensorFlow.js's module with threads does not work if a bundler has renamed its variables. It
  // also divides only TensorFlow.js's own kernels among threads.
  tf.env().set('WASM_HAS_MULTITHREAD_SUPPORT', false);
  registerWasmTrainingKernels();
  return true;
}

/** Kernels that check their inputs in JavaScript. A replay runs them as a whole. */
const CHECKING = ['GatherV2'];

/**
 * Makes WebAssembly the backend of TensorFlow.js, if `@tensorflow/tfjs-backend-wasm` is imported.
 * Returns whether that succeeded.
 */
export async function switchToWasmBackend(): Promise<boolean> {
  const isOpen = prepareWasmBackend() && (await tf.setBackend('wasm').catch(() => false));
  if (isOpen) observeWasmKernels(wasmBackend()!, new Set([...javascriptKernelNames, ...CHECKING]));
  return isOpen;
}
