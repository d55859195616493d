/**
 * Kernels of back-propagation for TensorFlow.js's WebAssembly backend: those that it lacks, and one
 * that it computes about 25 times slower than a forward pass.
 */
import * as tf from '@tensorflow/tfjs';
import type { BackendWasm } from '@tensorflow/tfjs-backend-wasm';
import { LOOK_UP } from '../../kernels/embedding.ts';

/**
 * A matrix is transposed before it is multiplied if each of its elements is used at least this many
 * times. With fewer uses, the transposition takes longer than it saves (measured).
 */
const MIN_USES = 8;

/**
 * Batches of matrices are multiplied one by one if each product has at least this many
 * multiplications. A layer of attention over 1024 positions, of 67 million, then takes half the
 * time; over 256 positions, of 4 million, it takes as long as before.
 */
const MIN_MULTIPLICATIONS = 2 ** 24;

let isRegistered = false;

/** Registers the kernels. Call it before TensorFlow.js opens the backend. Idempotent. */
export function registerTrainingKernels(): void {
  if (isRegistered) return;
  isRegistered = true;
  registerFilterGradient();
  registerMatMul();
  registerLookUp();
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
      const [batches, isOneProduct] = [sizeOfBatch(a), sizeOfBatch(a) === 1 && sizeOfBatch(b) === 1];
      if (!isOneProduct && batches === sizeOfBatch(b) && rows * columns * inner >= MIN_MULTIPLICATIONS) {
        return multiplyOneByOne(params.backend as BackendWasm, a, b, { transposeA, transposeB });
      }
      const [writesA, writesB] = [transposeA && columns >= MIN_USES, transposeB && rows >= MIN_USES];
      // XNNPACK multiplies only if both matrices are in order.
      if (!isOneProduct || writesA !== transposeA || writesB !== transposeB || !(writesA || writesB)) {
        return original.kernelFunc(params);
      }
      const backend = params.backend as BackendWasm;
      return resultOf(backend, () => {
        const [left, right] = [viewOf(a, backend), viewOf(b, backend)];
        return tf.matMul(writesA ? transpose(left) : left, writesB ? transpose(right) : right);
      });
    },
  });
}

/**
 * Multiplies a batch of matrices, such as the heads of attention, one after the other: XNNPACK
 * multiplies only single matrices. TensorFlow.js's `slice` is not used, because it copies the whole
 * batch for each matrix.
 */
function multiplyOneByOne(
  backend: BackendWasm,
  a: tf.TensorInfo,
  b: tf.TensorInfo,
  { transposeA, transposeB }: MatMulAttributes,
): tf.TensorInfo {
  const [rows, columns] = [lengthOf(a, transposeA ? -1 : -2), lengthOf(b, transposeB ? -2 : -1)];
  const result = backend.makeOutput([...a.shape.slice(0, -2), rows, columns], 'float32');
  const floatsOf = (info: tf.TensorInfo): Float32Array => backend.typedArrayFromHeap(info) as Float32Array;
  for (let i = 0; i < sizeOfBatch(a); i++) {
    tf.tidy(() => {
      const [left, right] = [a, b].map((all) => {
        const one = backend.makeOutput(all.shape.slice(-2), 'float32');
        const size = tf.util.sizeFromShape(one.shape);
        floatsOf(one).set(floatsOf(all).subarray(i * size, (i + 1) * size));
        return tf.engine().makeTensorFromTensorInfo(one) as tf.Tensor2D;
      });
      const product = tf.matMul(left!, right!, transposeA, transposeB);
      floatsOf(result).set(floatsOf(product), i * product.size);
    });
  }
  return result;
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

function registerFilterGradient(): void {
  if (tf.getKernel('Conv2DBackpropFilter', 'wasm')) return;
  tf.registerKernel({
    kernelName: 'Conv2DBackpropFilter',
    backendName: 'wasm',
    kernelFunc: ({ inputs, attrs, backend }) =>
      convolutionFilterGradient(inputs, attrs as unknown as FilterGradientAttributes, backend as BackendWasm),
  });
}

/**
 * Registers the op that looks up rows of a table: tokens int32 [n], table float32 [rows, width] ->
 * float32 [n, width]. A token without a row has zeros. Its gradient adds rows in the order of the
 * tokens. TensorFlow.js 4.22 has no kernel for the gradient of `gather`.
 */
function registerLookUp(): void {
  const gradient = 'LookUpGradient';
  registerKernel(LOOK_UP, ({ tokens, table }, backend) => {
    const [rows, width] = table!.shape as [number, number];
    const result = backend.makeOutput([tokens!.shape[0]!, width], 'float32');
    // The views are made after the allocation, which may move the memory.
    const [to, from] = [result, table!].map((info) => backend.typedArrayFromHeap(info) as Float32Array);
    for (const [i, token] of backend.typedArrayFromHeap(tokens!).entries()) {
      const isRow = token >= 0 && token < rows;
      if (isRow) to!.set(from!.subarray(token * width, (token + 1) * width), i * width);
      else to!.fill(0, i * width, (i + 1) * width);
    }
    return result;
  });
  registerKernel(gradient, ({ tokens, dy }, backend, rows) => {
    const width = dy!.shape[1]!;
    const result = backend.makeOutput([rows, width], 'float32');
    const [sums, from] = [result, dy!].map((info) => backend.typedArrayFromHeap(info) as Float32Array);
    sums!.fill(0);
    for (const [i, token] of backend.typedArrayFromHeap(tokens!).entries()) {
      if (token < 0 || token >= rows) continue;
      for (let column = 0; column < width; column++) sums![token * width + column]! += from![i * width + column]!;
    }
    return result;
  });
  tf.registerGradient({
    kernelName: LOOK_UP,
    inputsToSave: ['tokens', 'table'],
    gradFunc: (dy, saved) => {
      const [tokens, table] = saved as [tf.Tensor, tf.Tensor];
      const inputs = { tokens, dy: dy as tf.Tensor };
      return { table: () => tf.engine().runKernel(gradient, inputs, { rows: table.shape[0] }) };
    },
  });
}

function registerKernel(
  kernelName: string,
  kernelFunc: (inputs: tf.NamedTensorInfoMap, backend: BackendWasm, rows: number) => tf.TensorInfo,
): void {
  tf.registerKernel({
    kernelName,
    backendName: 'wasm',
    kernelFunc: ({ inputs, backend, attrs }) =>
      kernelFunc(inputs, backend as BackendWasm, (attrs as { rows: number } | undefined)?.rows ?? 0),
  });
}

interface FilterGradientAttributes {
  strides: number | [number, number];
  pad: 'valid' | 'same' | number;
  dimRoundingMode?: 'floor' | 'round' | 'ceil';
  filterShape: [number, number, number, number];
}

/**
 * Computes the gradient of a convolution's filter, for which TensorFlow.js 4.22 has no wasm kernel.
 * The gradient of one filter weight is a sum of products: each input under that weight times the
 * gradient of the output. The inputs are gathered into columns, so that one matMul computes all
 * sums.
 *
 * @param inputs `x` float32 [batch, height, width, in], `dy` float32 [batch, outHeight, outWidth,
 *   out]; NHWC
 * @returns float32 `filterShape`
 */
function convolutionFilterGradient(
  inputs: tf.NamedTensorInfoMap,
  { strides, pad, dimRoundingMode, filterShape }: FilterGradientAttributes,
  backend: BackendWasm,
): tf.TensorInfo {
  return resultOf(backend, () => {
    const [x, dy] = [inputs['x'], inputs['dy']].map((info) => viewOf(info!, backend)) as [tf.Tensor4D, tf.Tensor4D];
    const { batchSize, outHeight, outWidth, strideHeight, strideWidth, padInfo, inChannels, outChannels } =
      tf.backend_util.computeConv2DInfo(x.shape, filterShape, strides, 1, pad, dimRoundingMode);
    const { top, bottom, left, right } = padInfo;
    const padded = tf.pad(x, [
      [0, 0],
      [top, bottom],
      [left, right],
      [0, 0],
    ]);
    const [filterHeight, filterWidth] = filterShape;
    const under = Array.from({ length: filterHeight * filterWidth }, (_, at) => {
      const [row, column] = [Math.floor(at / filterWidth), at % filterWidth];
      const end = [
        ...[batchSize, row + (outHeight - 1) * strideHeight + 1],
        ...[column + (outWidth - 1) * strideWidth + 1, inChannels],
      ];
      return tf.stridedSlice(padded, [0, row, column, 0], end, [1, strideHeight, strideWidth, 1]);
    });
    const positions = batchSize * outHeight * outWidth;
    const columns = tf.concat(under, 3).reshape<tf.Tensor2D>([positions, -1]);
    const outputs = dy.reshape<tf.Tensor2D>([positions, outChannels]);
    return tf.matMul(columns, outputs, true).reshape(filterShape);
  });
}

/** Computes a kernel's result with ops. Intermediate tensors are disposed of. */
function resultOf(backend: BackendWasm, compute: () => tf.Tensor): tf.TensorInfo {
  const result = tf.tidy(compute);
  // The tensor is disposed of, but its data remains, because it is the kernel's result.
  const { dataId, shape, dtype } = result;
  backend.incRef(dataId);
  result.dispose();
  return { dataId, shape, dtype };
}

/** Returns a tensor that shares the memory of a kernel's input. The caller still owns the input. */
function viewOf(info: tf.TensorInfo, backend: BackendWasm): tf.Tensor {
  backend.incRef(info.dataId);
  return tf.engine().makeTensorFromTensorInfo(info);
}
