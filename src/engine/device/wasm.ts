/**
 * Runs TensorFlow.js on the CPU with WebAssembly, which is a few times faster than JavaScript.
 * Loaded only if there is no GPU, because it is half a megabyte of code from the page's own server.
 * Only Vite understands the imports of the files, so the library does not use this module.
 */
import * as tf from '@tensorflow/tfjs';
import { setWasmPaths } from '@tensorflow/tfjs-backend-wasm';
import plain from '@tensorflow/tfjs-backend-wasm/dist/tfjs-backend-wasm.wasm?url';
import simd from '@tensorflow/tfjs-backend-wasm/dist/tfjs-backend-wasm-simd.wasm?url';
import { systemClock } from '../../util/clock.ts';
import { wasmBackend } from '../../wasm/backend.ts';
import { canRunWasmModule, openWasmThreads } from '../../wasm/functions.ts';
import { withSharedMemory } from '../../wasm/sharedMemory.ts';
import type { ThreadStart } from '../../wasm/threads.ts';
import type { OpenedWasmBackend } from './device.ts';
import { switchToWasmBackend } from './wasmBackend.ts';

/** Largest memory of TensorFlow.js's module, in pages of 64 KiB: 4 GiB. */
const LARGEST_PAGES = 65_536;
const NOT_ISOLATED =
  'Only pages over https or on localhost have threads, and only in browsers that isolate them from other pages.';

/** Makes WebAssembly the backend of TensorFlow.js. Returns `null` if that fails. */
export async function openWasmBackend(): Promise<OpenedWasmBackend | null> {
  const shared = globalThis.crossOriginIsolated && canRunWasmModule() && canReserve() ? await sharedModule() : null;
  const paths = {
    'tfjs-backend-wasm.wasm': plain,
    'tfjs-backend-wasm-simd.wasm': simd,
    // TensorFlow.js requires a path for the file with threads, but never loads it.
    'tfjs-backend-wasm-threaded-simd.wasm': simd,
  };
  setWasmPaths(paths, shared !== null);
  const isOpen = shared === null ? await switchToWasmBackend() : await withModule(shared, switchToWasmBackend);
  if (!isOpen) return null;
  const threads = openWasmThreads(wasmBackend()!, { clock: systemClock, create: startWasmThread });
  const cores = globalThis.navigator?.hardwareConcurrency ?? 1;
  if (threads !== null) return { shareCores: (ranks) => (threads.count = Math.floor(cores / ranks)) };
  const reason = globalThis.crossOriginIsolated ? '' : ` ${NOT_ISOLATED}`;
  return cores > 1 ? { note: `It uses one of ${cores} cores.${reason}` } : {};
}

/** Returns TensorFlow.js's module with shared memory; `null` if it cannot be loaded. */
async function sharedModule(): Promise<Uint8Array<ArrayBuffer> | null> {
  try {
    const response = await fetch(simd);
    return response.ok ? withSharedMemory(new Uint8Array(await response.arrayBuffer())) : null;
  } catch {
    return null;
  }
}

/** Runs `open`. Meanwhile, TensorFlow.js receives `module` instead of the file. */
async function withModule<T>(module: Uint8Array<ArrayBuffer>, open: () => Promise<T>): Promise<T> {
  const { platform } = tf.env();
  const fetch = platform.fetch.bind(platform);
  platform.fetch = async () => new Response(module);
  try {
    return await open();
  } finally {
    platform.fetch = fetch;
  }
}

/**
 * Whether a shared memory of the largest size can be reserved. A 32-bit browser has too few
 * addresses.
 */
function canReserve(): boolean {
  try {
    return new WebAssembly.Memory({ initial: 1, maximum: LARGEST_PAGES, shared: true }).buffer.byteLength > 0;
  } catch {
    return false;
  }
}

/** Starts a thread. If it fails to start, other threads compute its parts. */
export function startWasmThread(start: ThreadStart): void {
  const worker = new Worker(new URL('./wasmThread.ts', import.meta.url), { type: 'module', name: 'peergrad thread' });
  // An error that is not handled stops the engine.
  worker.addEventListener('error', (event) => event.preventDefault());
  worker.postMessage(start);
}
