/**
 * Runs TensorFlow.js on the CPU with WebAssembly, which is a few times faster than JavaScript.
 * Loaded only if there is no GPU, because it is half a megabyte of code from the page's own server.
 * Only Vite understands the imports of the files, so the library does not use this module.
 */
import * as tf from '@tensorflow/tfjs';
import { setWasmPaths } from '@tensorflow/tfjs-backend-wasm';
import plain from '@tensorflow/tfjs-backend-wasm/dist/tfjs-backend-wasm.wasm?url';
import simd from '@tensorflow/tfjs-backend-wasm/dist/tfjs-backend-wasm-simd.wasm?url';
import { useWasm } from './wasmBackend.ts';

/** Makes WebAssembly the backend of TensorFlow.js. Returns whether that succeeded. */
export function openWasm(): Promise<boolean> {
  // Threads need a page that is isolated from other origins (COEP), but this page is not isolated.
  tf.env().set('WASM_HAS_MULTITHREAD_SUPPORT', false);
  setWasmPaths({
    'tfjs-backend-wasm.wasm': plain,
    'tfjs-backend-wasm-simd.wasm': simd,
    // TensorFlow.js requires a path for the file with threads, but never loads it here.
    'tfjs-backend-wasm-threaded-simd.wasm': simd,
  });
  return useWasm();
}
