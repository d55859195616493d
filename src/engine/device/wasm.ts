/**
 * Runs TensorFlow.js on the CPU with WebAssembly, which is a few times faster than JavaScript.
 * Loaded only if there is no GPU, because it is half a megabyte of code from the page's own server.
 * Only Vite understands the imports of the files, so the library does not use this module.
 */
import * as tf from '@tensorflow/tfjs';
import { setWasmPaths } from '@tensorflow/tfjs-backend-wasm';
import plain from '@tensorflow/tfjs-backend-wasm/dist/tfjs-backend-wasm.wasm?url';
import simd from '@tensorflow/tfjs-backend-wasm/dist/tfjs-backend-wasm-simd.wasm?url';
import { wasmBackend } from '../../wasm/backend.ts';
import { canCompute, openThreads } from '../../wasm/functions.ts';
import { withSharedMemory } from '../../wasm/sharedMemory.ts';
import type { ThreadStart } from '../../wasm/threads.ts';
import type { OpenedWasm } from './device.ts';
import { useWasm } from './wasmBackend.ts';

const WITHOUT_THREADS =
  'Only pages over https or on localhost have threads, and only in browsers that isolate them from other pages.';

/** Makes WebAssembly the backend of TensorFlow.js. Returns `null` if that fails. */
export async function openWasm(): Promise<OpenedWasm | null> {
  const hasThreads = globalThis.crossOriginIsolated && canCompute();
  const paths = {
    'tfjs-backend-wasm.wasm': plain,
    'tfjs-backend-wasm-simd.wasm': simd,
    // TensorFlow.js requires a path for the file with threads, but never loads it here.
    'tfjs-backend-wasm-threaded-simd.wasm': simd,
  };
  setWasmPaths(paths, hasThreads);
  const isOpen = hasThreads ? await withSharedFiles(useWasm) : await useWasm();
  if (!isOpen) return null;
  const cores = globalThis.navigator?.hardwareConcurrency ?? 1;
  if (!hasThreads) return cores > 1 ? { note: `It uses one of ${cores} cores. ${WITHOUT_THREADS}` } : {};
  const threads = openThreads(wasmBackend()!, startThread);
  return { shareCores: (ranks) => (threads.count = Math.floor(cores / ranks)) };
}

/** While `open` runs, modules that TensorFlow.js fetches get shared memory. */
async function withSharedFiles<T>(open: () => Promise<T>): Promise<T> {
  const { platform } = tf.env();
  const fetch = platform.fetch.bind(platform);
  platform.fetch = async (...request) => {
    const response = await fetch(...request);
    return response.ok ? new Response(withSharedMemory(new Uint8Array(await response.arrayBuffer()))) : response;
  };
  try {
    return await open();
  } finally {
    platform.fetch = fetch;
  }
}

function startThread(start: ThreadStart): void {
  const worker = new Worker(new URL('./wasmThread.ts', import.meta.url), { type: 'module', name: 'peergrad thread' });
  worker.postMessage(start);
}
