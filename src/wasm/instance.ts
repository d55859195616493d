/** This project's WebAssembly modules in the memory of TensorFlow.js's module, in any thread. */
import type { ThreadMemorySizes } from './divisions.ts';

/** Names of functions that kernels call. `module/index.ts` describes them. */
export type WasmFunctionName =
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

export type ModuleFunctions = Readonly<Record<WasmFunctionName, (...args: number[]) => void>>;

export interface ModuleInstance<Functions = ModuleFunctions> {
  functions: Functions;
  sizes: ThreadMemorySizes;
}

/** Functions of this folder's module and of `optim/module`. */
export type AllModuleFunctions = ModuleFunctions & Readonly<Record<'adam', (...args: number[]) => void>>;

/** @param memory shared, or not, as the module requires. */
export function instantiateWasmModule(module: WebAssembly.Module, memory: WebAssembly.Memory): ModuleInstance {
  const { exports } = new WebAssembly.Instance(module, { env: { memory } });
  return {
    functions: exports as unknown as ModuleFunctions,
    sizes: {
      scratchBytes: (exports['SCRATCH'] as WebAssembly.Global).value as number,
      attentionBytes: exports['attentionBytes'] as ThreadMemorySizes['attentionBytes'],
      windowBytes: exports['windowBytes'] as ThreadMemorySizes['windowBytes'],
    },
  };
}

/** The modules that threads run. */
export interface ThreadModules {
  kernels: WebAssembly.Module;
  optim: WebAssembly.Module;
}

export function instantiateThreadModules(
  { kernels, optim }: ThreadModules,
  memory: WebAssembly.Memory,
): ModuleInstance<AllModuleFunctions> {
  const { functions, sizes } = instantiateWasmModule(kernels, memory);
  const { exports } = new WebAssembly.Instance(optim, { env: { memory } });
  return { functions: { ...functions, ...exports } as AllModuleFunctions, sizes };
}
