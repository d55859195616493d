/**
 * Kernels of training for TensorFlow.js's WebAssembly backend: those that it lacks, those that it
 * computes wrongly, and those that are faster in this project's module.
 */
import * as tf from '@tensorflow/tfjs';
import type { BackendWasm } from '@tensorflow/tfjs-backend-wasm';
import { LOOK_UP_KERNEL_NAME } from '../../gpu/kernels/embedding.ts';
import { UsageError } from '../../util/errors.ts';
import { canRunWasmModule } from '../../wasm/functions.ts';
import { registerWasmModuleKernels } from '../../wasm/kernels.ts';
import {
  floatViewsOf,
  registerWasmKernel,
  replaceWasmKernel,
  kernelResultOf,
  tensorViewOfInput,
} from './wasmRegistry.ts';
import { registerWasmWindowKernels } from './wasmWindows.ts';

let isRegistered = false;

/**
 * Registers the kernels. May be called before or after TensorFlow.js opens the backend, and more
 * than once.
 */
export function registerWasmTrainingKernels(): void {
  if (isRegistered) return;
  isRegistered = true;
  registerWasmWindowKernels();
  registerSegmentSum();
  if (canRunWasmModule()) registerWasmModuleKernels();
  registerLookUp();
  registerPrelu();
  for (const name of ['Sum', 'Mean']) reduceNothing(name);
  registerCopies();
  for (const [name, input, dtype] of WRONG_TYPES) refuse(name, input, dtype);
}

/**
 * TensorFlow.js's kernel of PReLU reads the slopes wrongly unless they have the shape of the
 * input's last axes.
 */
function registerPrelu(): void {
  registerWasmKernel('Prelu', ({ x: info, alpha: slopes }, _, backend) =>
    kernelResultOf(backend, () => {
      const [x, alpha] = [tensorViewOfInput(info!, backend), tensorViewOfInput(slopes!, backend)];
      return tf.relu(x).sub(tf.relu(tf.neg(x)).mul(alpha));
    }),
  );
}

/**
 * Makes a reduction of a tensor without elements return zeros. TensorFlow.js leaves the result
 * unwritten.
 */
function reduceNothing(kernelName: string): void {
  replaceWasmKernel(kernelName, (params, original) => {
    const x = params.inputs['x']!;
    if (tf.util.sizeFromShape(x.shape) > 0) return original(params);
    const { axis, keepDims } = params.attrs as { axis: number | number[]; keepDims: boolean };
    const axes = tf.util.parseAxisParam(axis, x.shape);
    const [shape] = tf.backend_util.computeOutAndReduceShapes(x.shape, axes);
    const zeros = new Float32Array(tf.util.sizeFromShape(shape));
    const dtype = kernelName === 'Mean' ? 'float32' : x.dtype;
    const result = (params.backend as BackendWasm).makeOutput(shape, dtype, undefined, zeros);
    return keepDims ? { ...result, shape: tf.backend_util.expandShapeToKeepDim(shape, axes) } : result;
  });
}

/**
 * Makes clones, and casts to the same type, share the memory of a tensor, as on other backends.
 * TensorFlow.js copies, which takes a tenth of a pass of convolutions of large pictures.
 */
function registerCopies(): void {
  replaceWasmKernel('Identity', ({ inputs, backend }) => share(inputs['x']!, backend as SharingBackend));
  replaceWasmKernel('Cast', (params, original) => {
    const [x, backend] = [params.inputs['x']!, params.backend as SharingBackend];
    const dtype = params.attrs!['dtype'];
    if (dtype === x.dtype) return share(x, backend);
    return dtype === 'bool' ? castToBool(x, backend) : original(params);
  });
}

type SharingBackend = tf.KernelBackend & BackendWasm;

function share({ dataId, shape, dtype }: tf.TensorInfo, backend: SharingBackend): tf.TensorInfo {
  backend.incRef(dataId);
  return { dataId, shape, dtype };
}

/**
 * Casts to bool. TensorFlow.js converts numbers to bytes, so 256 and 0.5 become false, and 2
 * remains 2.
 */
function castToBool(x: tf.TensorInfo, backend: BackendWasm): tf.TensorInfo {
  const result = backend.makeOutput(x.shape, 'bool');
  const to = backend.typedArrayFromHeap(result);
  for (const [i, value] of backend.typedArrayFromHeap(x).entries()) to[i] = value === 0 ? 0 : 1;
  return result;
}

/**
 * Kernels, each with an input and a type. If the input has this type, the kernel misreads it: as
 * floats, or as elements of a different size.
 */
const WRONG_TYPES = [
  ['ClipByValue', 'x', 'int32'],
  ['Reciprocal', 'x', 'int32'],
  ['IsNan', 'x', 'int32'],
  ['IsFinite', 'x', 'int32'],
  ['IsInf', 'x', 'int32'],
  ['Reverse', 'x', 'bool'],
  ['StridedSlice', 'x', 'bool'],
  ['Select', 't', 'bool'],
  ['MaxPool3DGrad', 'input', 'int32'],
  ['MaxPool3DGrad', 'input', 'bool'],
] as const;

/** Makes a kernel reject inputs of a type for which its result would be wrong. */
function refuse(kernelName: string, input: string, dtype: tf.DataType): void {
  replaceWasmKernel(kernelName, (params, original) => {
    if (params.inputs[input]!.dtype !== dtype) return original(params);
    throw new UsageError(
      `${kernelName}: WebAssembly cannot compute this for ${dtype}. Cast ${input} to float32 first.`,
    );
  });
}

/**
 * Registers the op that looks up rows of a table: tokens int32 [n], table float32 [rows, width] ->
 * float32 [n, width]. The result for a token without a row is zeros.
 */
function registerLookUp(): void {
  registerWasmKernel(LOOK_UP_KERNEL_NAME, ({ tokens, table }, _, backend) => {
    const [rows, width] = table!.shape as [number, number];
    const result = backend.makeOutput([tokens!.shape[0]!, width], 'float32');
    const [to, from] = floatViewsOf(backend, result, table!);
    for (const [i, token] of backend.typedArrayFromHeap(tokens!).entries()) {
      const isRow = token >= 0 && token < rows;
      if (isRow) to!.set(from!.subarray(token * width, (token + 1) * width), i * width);
      else to!.fill(0, i * width, (i + 1) * width);
    }
    return result;
  });
  tf.registerGradient({
    kernelName: LOOK_UP_KERNEL_NAME,
    inputsToSave: ['tokens', 'table'],
    gradFunc: (dy, saved) => {
      const [tokens, table] = saved as [tf.Tensor1D, tf.Tensor2D];
      return { table: () => tf.unsortedSegmentSum(dy as tf.Tensor, tokens, table.shape[0]) };
    },
  });
}

/**
 * Registers the kernel that sums the elements of each segment: float32 [n, ...] with int32 [n]
 * segments -> float32 [numSegments, ...]. Elements are added in their order. Elements without a
 * segment are left out. The gradient of `gather`, and therefore of embeddings, needs this kernel.
 * TensorFlow.js 4.22 lacks it on wasm.
 */
function registerSegmentSum(): void {
  registerWasmKernel('UnsortedSegmentSum', ({ x, segmentIds }, attributes: { numSegments: number }, backend) => {
    const { numSegments } = attributes;
    const shape = [numSegments, ...x!.shape.slice(1)];
    const width = tf.util.sizeFromShape(shape.slice(1));
    const result = backend.makeOutput(shape, 'float32');
    const [sums, from] = floatViewsOf(backend, result, x!);
    sums!.fill(0);
    for (const [i, segment] of backend.typedArrayFromHeap(segmentIds!).entries()) {
      if (segment < 0 || segment >= numSegments) continue;
      for (let at = 0; at < width; at++) sums![segment * width + at]! += from![i * width + at]!;
    }
    return result;
  });
}
