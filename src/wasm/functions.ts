/** The functions of this project's WebAssembly module, in the memory of TensorFlow.js's module. */
import type * as tf from '@tensorflow/tfjs';
import { compileSimd } from '../util/simdModule.ts';
import { allocate, type WasmBackend } from './backend.ts';
import { MODULE } from './moduleBytes.ts';
import { compute, type Pointer } from './recording.ts';

type Run = (...args: number[]) => void;

/** Names of functions that kernels call. `module/index.ts` describes them. */
export type FunctionName =
  | 'addRow'
  | 'attention'
  | 'attentionGradient'
  | 'convolutionGradient'
  | 'crossEntropy'
  | 'crossEntropyGradient'
  | 'depthwiseFilterGradient'
  | 'depthwiseInputGradient'
  | 'multiply'
  | 'poolGradient'
  | 'rmsNorm'
  | 'rmsNormGradient'
  | 'rmsNormScaleProducts'
  | 'sumColumns'
  | 'sumRows';

interface Functions {
  run: Readonly<Record<FunctionName, Run>>;
  /** Address of memory that functions write and that nobody reads later. */
  scratch: number;
  attentionBytes: (context: number) => number;
  windowBytes: (outHeight: number, outWidth: number, taps: number) => number;
}

/**
 * Whether the browser can run the module; see {@link compileSimd}. TensorFlow.js's module has
 * threads and shared memory on a page that is isolated from other origins. This module has neither.
 */
export function canCompute(): boolean {
  return !globalThis.crossOriginIsolated && compiledModule() !== null;
}

let compiled: WebAssembly.Module | null = null;

function compiledModule(): WebAssembly.Module | null {
  return (compiled ??= compileSimd(MODULE));
}

const instances = new WeakMap<WasmBackend, Functions>();

/** @throws Error if there is no memory for the scratch memory. */
export function functionsOf(backend: WasmBackend): Functions {
  const known = instances.get(backend);
  if (known) return known;
  const { exports } = new WebAssembly.Instance(compiledModule()!, { env: { memory: backend.wasm.asm.memory } });
  const scratchBytes = (exports['SCRATCH'] as WebAssembly.Global).value as number;
  const scratch = allocate(backend, scratchBytes);
  if (scratch === 0) throw new Error(`WebAssembly has no memory for ${scratchBytes} bytes`);
  const functions = {
    run: exports as unknown as Functions['run'],
    scratch,
    attentionBytes: exports['attentionBytes'] as Functions['attentionBytes'],
    windowBytes: exports['windowBytes'] as Functions['windowBytes'],
  };
  instances.set(backend, functions);
  return functions;
}

/** Calls a function; see {@link compute}. */
export function call(
  backend: WasmBackend,
  name: FunctionName,
  args: readonly (number | tf.TensorInfo | Pointer)[],
): void {
  compute(backend, functionsOf(backend).run[name], args);
}
