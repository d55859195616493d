/** Functions that the kernels for TensorFlow.js's WebAssembly backend share. */
import * as tf from '@tensorflow/tfjs';
import type { BackendWasm } from '@tensorflow/tfjs-backend-wasm';

/** Computes a kernel's result. `Attributes` are the ones that TensorFlow.js passes to it. */
export type WasmKernel<Attributes> = (
  inputs: tf.NamedTensorInfoMap,
  attributes: Attributes,
  backend: BackendWasm,
) => tf.TensorInfo;

/**
 * Names of the kernels that {@link registerWasmKernel} has registered. They compute in JavaScript.
 */
export const javascriptKernelNames = new Set<string>();

/** Registers a kernel, in place of TensorFlow.js's if there is one. */
export function registerWasmKernel<Attributes>(kernelName: string, kernel: WasmKernel<Attributes>): void {
  javascriptKernelNames.add(kernelName);
  if (tf.getKernel(kernelName, 'wasm')) tf.unregisterKernel(kernelName, 'wasm');
  tf.registerKernel({
    kernelName,
    backendName: 'wasm',
    kernelFunc: ({ inputs, attrs, backend }) => kernel(inputs, attrs as unknown as Attributes, backend as BackendWasm),
  });
}

type Kernel = (params: Parameters<tf.KernelFunc>[0], original: tf.KernelFunc) => ReturnType<tf.KernelFunc>;

/** Registers a kernel in place of another one, the original, which it may call. */
export function replaceWasmKernel(kernelName: string, kernel: Kernel): void {
  const original = tf.getKernel(kernelName, 'wasm');
  tf.unregisterKernel(kernelName, 'wasm');
  tf.registerKernel({ ...original, kernelFunc: (params) => kernel(params, original.kernelFunc) });
}

/**
 * Returns views of the tensors' floats. Make them after the kernel's output is allocated, because
 * an allocation may move the memory.
 */
export function floatViewsOf(backend: BackendWasm, ...all: tf.TensorInfo[]): Float32Array[] {
  return all.map((info) => backend.typedArrayFromHeap(info) as Float32Array);
}

/** Computes a kernel's result with ops. Intermediate tensors are disposed of. */
export function kernelResultOf(backend: BackendWasm, compute: () => tf.Tensor): tf.TensorInfo {
  const result = tf.tidy(compute);
  // The tensor is disposed of, but its data remains, because it is the kernel's result.
  const { dataId, shape, dtype } = result;
  backend.incRef(dataId);
  result.dispose();
  return { dataId, shape, dtype };
}

/** Returns a tensor that shares the memory of a kernel's input. The caller still owns the input. */
export function tensorViewOfInput(info: tf.TensorInfo, backend: BackendWasm): tf.Tensor {
  backend.incRef(info.dataId);
  return tf.engine().makeTensorFromTensorInfo(info);
}
