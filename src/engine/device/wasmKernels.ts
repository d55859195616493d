/**
 * Kernels of training for TensorFlow.js's WebAssembly backend: those that it lacks, those that it
 * computes wrongly, and one that it computes about 25 times slower than a forward pass.
 */
import * as tf from '@tensorflow/tfjs';
import { LOOK_UP } from '../../gpu/kernels/embedding.ts';
import { UsageError } from '../../util/errors.ts';
import type { WasmBackend } from '../../wasm/backend.ts';
import { multiplyEach } from '../../wasm/products.ts';
import { floatsOf, registerWasmKernel, resultOf, viewOf } from './wasmRegistry.ts';
import { registerWindowKernels } from './wasmWindows.ts';

/**
 * A matrix is transposed before it is multiplied if each of its elements is used at least this many
 * times. With fewer uses, the transposition takes longer than it saves (measured).
 */
const MIN_USES = 8;

/**
 * Matrices of batches are multiplied one by one if each product has at least this many
 * multiplications. TensorFlow.js multiplies batches in a plain loop, which takes 3 to 10 times as
 * long for attention over 64 positions. With fewer multiplications, the calls take longer than they
 * save (measured).
 */
const MIN_MULTIPLICATIONS = 2 ** 13;

let isRegistered = false;

/**
 * Registers the kernels. May be called before or after TensorFlow.js opens the backend, and more
 * than once.
 */
export function registerTrainingKernels(): void {
  if (isRegistered) return;
  isRegistered = true;
  registerWindowKernels();
  registerSegmentSum();
  registerMatMul();
  registerLookUp();
  registerPrelu();
  for (const [name, input, dtype] of WRONG_TYPES) refuse(name, input, dtype);
}

/**
 * Replaces the kernel of matMul. TensorFlow.js 4.22 calls XNNPACK only if neither matrix is
 * transposed; other products run in a plain loop. The gradient of a dense layer's kernel is such a
 * product: x^T dy. Here the transposed matrix is written first, so that XNNPACK multiplies.
 */
function registerMatMul(): void {
  const original = tf.getKernel('BatchMatMul', 'wasm');
  tf.unregisterKernel('BatchMatMul', 'wasm');
  tf.registerKernel({
    ...original,
    kernelFunc: (params) => {
      const { transposeA, transposeB } = params.attrs as unknown as MatMulAttributes;
      const [a, b] = [params.inputs['a']!, params.inputs['b']!];
      const [rows, columns] = [lengthOf(a, transposeA ? -1 : -2), lengthOf(b, transposeB ? -2 : -1)];
      const inner = lengthOf(a, transposeA ? -2 : -1);
      const isOneProduct = sizeOfBatch(a) === 1 && sizeOfBatch(b) === 1;
      const areFloats = a.dtype === 'float32' && b.dtype === 'float32';
      const areBatches = areFloats && tf.util.arraysEqual(a.shape.slice(0, -2), b.shape.slice(0, -2));
      if (!isOneProduct && areBatches && rows * columns * inner >= MIN_MULTIPLICATIONS) {
        const backend = params.backend as WasmBackend;
        return resultOf(backend, () => {
          const [left, right] = [viewOf(a, backend), viewOf(b, backend)];
          const product = multiplyEach(
            backend,
            transposeA ? transpose(left) : left,
            transposeB ? transpose(right) : right,
          );
          return tf.engine().makeTensorFromTensorInfo(product);
        });
      }
      const [writesA, writesB] = [transposeA && columns >= MIN_USES, transposeB && rows >= MIN_USES];
      // XNNPACK multiplies only if neither matrix is transposed.
      if (!isOneProduct || writesA !== transposeA || writesB !== transposeB || !(writesA || writesB)) {
        return original.kernelFunc(params);
      }
      const backend = params.backend as WasmBackend;
      // Transposing the result, which is b^T a^T, may move fewer values than transposing a or b.
      const [sizeA, sizeB] = [rows * inner, inner * columns];
      const moved = (writesA ? sizeA : 0) + (writesB ? sizeB : 0);
      const isSwapped = (writesA ? 0 : sizeA) + (writesB ? 0 : sizeB) + rows * columns < moved;
      return resultOf(backend, () => {
        const [left, right] = [viewOf(a, backend), viewOf(b, backend)];
        if (isSwapped) {
          // XNNPACK would keep a copy of the second matrix under the number of this tensor, whose
          // shape may be another one in the next product.
          const [first, second] = [writesB ? right : transpose(right), writesA ? left : transpose(left)];
          const product = multiplyEach(backend, first.as2D(columns, inner), second.as2D(inner, rows));
          const outer = a.shape.length < b.shape.length ? b.shape : a.shape;
          return transpose(tf.engine().makeTensorFromTensorInfo(product)).reshape([
            ...outer.slice(0, -2),
            rows,
            columns,
          ]);
        }
        return tf.matMul(writesA ? transpose(left) : left, writesB ? transpose(right) : right);
      });
    },
  });
}

/**
 * TensorFlow.js's kernel of PReLU reads the slopes wrongly unless they have the shape of the
 * input's last axes.
 */
function registerPrelu(): void {
  registerWasmKernel('Prelu', ({ x: info, alpha: slopes }, _, backend) =>
    resultOf(backend, () => {
      const [x, alpha] = [viewOf(info!, backend), viewOf(slopes!, backend)];
      return tf.relu(x).sub(tf.relu(tf.neg(x)).mul(alpha));
    }),
  );
}

/**
 * Kernels, each with an input and a type. If the input has this type, the kernel misreads it: as
 * floats, or as elements of another size.
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
] as const;

/** Makes a kernel reject inputs of a type for which its result would be wrong. */
function refuse(kernelName: string, input: string, dtype: tf.DataType): void {
  const original = tf.getKernel(kernelName, 'wasm');
  tf.unregisterKernel(kernelName, 'wasm');
  tf.registerKernel({
    ...original,
    kernelFunc: (params) => {
      if (params.inputs[input]!.dtype !== dtype) return original.kernelFunc(params);
      throw new UsageError(
        `${kernelName}: TensorFlow.js computes wrong results for ${dtype} on WebAssembly. Cast ${input} to float32 first.`,
      );
    },
  });
}

interface MatMulAttributes {
  transposeA: boolean;
  transposeB: boolean;
}

const lengthOf = ({ shape }: tf.TensorInfo, axis: -1 | -2): number => shape.at(axis)!;

const sizeOfBatch = ({ shape }: tf.TensorInfo): number => tf.util.sizeFromShape(shape.slice(0, -2));

/** Swaps the last two axes. */
function transpose(matrices: tf.Tensor): tf.Tensor {
  const axes = [...matrices.shape.keys()];
  return tf.transpose(matrices, [...axes.slice(0, -2), axes.at(-1)!, axes.at(-2)!]);
}

/**
 * Registers the op that looks up rows of a table: tokens int32 [n], table float32 [rows, width] ->
 * float32 [n, width]. The result for a token without a row is zeros.
 */
function registerLookUp(): void {
  registerWasmKernel(LOOK_UP, ({ tokens, table }, _, backend) => {
    const [rows, width] = table!.shape as [number, number];
    const result = backend.makeOutput([tokens!.shape[0]!, width], 'float32');
    const [to, from] = floatsOf(backend, result, table!);
    for (const [i, token] of backend.typedArrayFromHeap(tokens!).entries()) {
      const isRow = token >= 0 && token < rows;
      if (isRow) to!.set(from!.subarray(token * width, (token + 1) * width), i * width);
      else to!.fill(0, i * width, (i + 1) * width);
    }
    return result;
  });
  tf.registerGradient({
    kernelName: LOOK_UP,
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
    const [sums, from] = floatsOf(backend, result, x!);
    sums!.fill(0);
    for (const [i, segment] of backend.typedArrayFromHeap(segmentIds!).entries()) {
      if (segment < 0 || segment >= numSegments) continue;
      for (let at = 0; at < width; at++) sums![segment * width + at]! += from![i * width + at]!;
    }
    return result;
  });
}
