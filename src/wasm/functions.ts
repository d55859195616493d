/** The functions of this project's WebAssembly module, in the memory of TensorFlow.js's module. */
import type * as tf from '@tensorflow/tfjs';
import { MODULE as OPTIM_MODULE } from '../optim/moduleBytes.ts';
import { setAdamUpdater, VECTOR_PART_BYTES, vectorParts } from '../optim/vectors.ts';
import { compileSimd } from '../util/simdModule.ts';
import { allocateWasmMemory, wasmBackend, type WasmBackend } from './backend.ts';
import { CALL_DIVISIONS, type DividedFunctionName, type ThreadMemorySizes } from './divisions.ts';
import {
  instantiateWasmModule,
  type AllModuleFunctions,
  type WasmFunctionName,
  type ModuleFunctions,
} from './instance.ts';
import { MODULE } from './moduleBytes.ts';
import { callAndRecordWasm, type TensorPointer } from './recording.ts';
import { withSharedMemory } from './sharedMemory.ts';
import { MAX_WASM_THREADS, WasmThreads } from './threads.ts';

/** Elements that threads update together. */
const CHUNK = 32_768;

interface Functions {
  run: ModuleFunctions;
  /** Address of memory that functions write and that nobody reads later. */
  scratch: number;
  attentionBytes: (context: number) => number;
  windowBytes: (outHeight: number, outWidth: number, taps: number) => number;
}

/**
 * Whether the browser can run the module; see {@link compileSimd}. It cannot if the page has opened
 * TensorFlow.js's module with threads.
 */
export function canRunWasmModule(): boolean {
  const backend = wasmBackend();
  return (backend === null || backend.wasm.asm.memory !== undefined) && compiledModule() !== null;
}

let compiled: WebAssembly.Module | null = null;

function compiledModule(): WebAssembly.Module | null {
  return (compiled ??= compileSimd(MODULE));
}

const instances = new WeakMap<WasmBackend, Functions>();

/** @throws Error if there is not enough memory for `scratch`. */
export function wasmFunctionsOf(backend: WasmBackend): Functions {
  const known = instances.get(backend);
  if (known) return known;
  const { functions, sizes } = instantiateWasmModule(compiledModule()!, backend.wasm.asm.memory!);
  const result = { run: functions, ...memoryFor(1, backend, sizes) };
  instances.set(backend, result);
  return result;
}

function memoryFor(
  threads: number,
  backend: WasmBackend,
  { scratchBytes, attentionBytes, windowBytes }: ThreadMemorySizes,
): Omit<Functions, 'run'> {
  return {
    scratch: reserve(backend, threads * scratchBytes),
    attentionBytes: (context) => threads * attentionBytes(context),
    windowBytes: (outHeight, outWidth, taps) => threads * windowBytes(outHeight, outWidth, taps),
  };
}

function reserve(backend: WasmBackend, bytes: number): number {
  const address = allocateWasmMemory(backend, bytes);
  if (address === 0) throw new Error(`WebAssembly has no memory for ${bytes} bytes`);
  return address;
}

const opened = new WeakMap<WasmBackend, WasmThreads>();

/**
 * Lets threads compute the functions and the updates of optimizers. Must be called before the first
 * kernel runs.
 *
 * @returns the threads: only the calling one, until their number is set. `null` if the backend's
 *   memory is not shared.
 */
export function openWasmThreads(
  backend: WasmBackend,
  options: ConstructorParameters<typeof WasmThreads>[2],
): WasmThreads | null {
  const memory = backend.wasm.asm.memory!;
  if (typeof SharedArrayBuffer === 'undefined' || !(memory.buffer instanceof SharedArrayBuffer)) return null;
  const before = opened.get(backend);
  if (before) return before;
  const kernels = compileSimd(MODULE, withSharedMemory)!;
  const optim = compileSimd(OPTIM_MODULE, withSharedMemory)!;
  const threads = new WasmThreads({ kernels, optim }, memory, options);
  const { functions, sizes } = threads.instance;
  const names = Object.keys(CALL_DIVISIONS) as DividedFunctionName[];
  const divided = names.map((name) => [name, (...args: number[]) => threads.run(name, args)] as const);
  const run = { ...functions, ...(Object.fromEntries(divided) as Pick<AllModuleFunctions, DividedFunctionName>) };
  instances.set(backend, { run, ...memoryFor(MAX_WASM_THREADS, backend, sizes) });
  const updater = {
    adam: (...args: number[]) => threads.start('adam', args),
    finish: () => threads.finish(),
    ...vectorParts(memory, reserve(backend, VECTOR_PART_BYTES * CHUNK), CHUNK),
  };
  // Browsers copy to shared memory more slowly, so a single thread computes in memory that is not
  // shared.
  setAdamUpdater(() => (threads.count > 1 ? updater : null));
  opened.set(backend, threads);
  return threads;
}

/** Calls a function; see {@link callAndRecordWasm}. */
export function callWasmFunction(
  backend: WasmBackend,
  name: WasmFunctionName,
  args: readonly (number | tf.TensorInfo | TensorPointer)[],
): void {
  callAndRecordWasm(backend, wasmFunctionsOf(backend).run[name], args);
}
