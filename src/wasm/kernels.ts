/** This project's kernels for TensorFlow.js's WebAssembly backend. They are deterministic. */
import * as tf from '@tensorflow/tfjs';
import { registerOwnGradients } from '../gpu/kernels/index.ts';
import { UsageError } from '../util/errors.ts';
import { elementCountOf } from '../util/shape.ts';
import type { WasmBackend } from './backend.ts';
import { callWasmFunction, wasmFunctionsOf } from './functions.ts';
import type { TensorPointer } from './recording.ts';
import { depthwiseInfo, pool2DInfo, pool3DInfo, type Conv2DInfo, type Conv3DInfo, type Shape4 } from './windowInfo.ts';

const FLOAT_BYTES = 4;
const DOUBLE_BYTES = 8;

interface Arguments {
  inputs: tf.NamedTensorInfoMap;
  attrs: tf.NamedAttrMap;
  backend: WasmBackend;
}

/** Returns `null` if TensorFlow.js's kernel should compute the result. */
type Kernel = (args: Arguments) => tf.TensorInfo | tf.TensorInfo[] | null;

const KERNELS: Readonly<Record<string, Kernel>> = {
  Add: addRow,
  AvgPool3DGrad: (args) => poolGradient(args, pool3DInfo),
  AvgPoolGrad: (args) => poolGradient(args, pool2DInfo),
  BatchMatMul: multiply,
  CausalAttention: attention,
  CausalAttentionGradient: attentionGradient,
  ColumnSum: columnSum,
  Conv2DBackpropFilter: filterGradient,
  Conv2DBackpropInput: inputGradient,
  CrossEntropySum: crossEntropy,
  CrossEntropyGradient: crossEntropyGradient,
  DepthwiseConv2dNativeBackpropFilter: depthwiseFilterGradient,
  DepthwiseConv2dNativeBackpropInput: depthwiseInputGradient,
  MaxPool3DGrad: (args) => poolGradient(args, pool3DInfo, true),
  MaxPoolGrad: (args) => poolGradient(args, pool2DInfo, true),
  RmsNorm: rmsNorm,
  RmsNormResidual: (args) => {
    const { dataId, shape, dtype } = args.inputs['x']!;
    args.backend.incRef(dataId);
    return [rmsNorm(args), { dataId, shape, dtype }];
  },
  RmsNormGradient: rmsNormGradient,
  RmsNormScaleGradient: rmsNormScaleProducts,
  Sum: sumRows,
};

/** Registers the kernels. The browser must be able to run them: see {@link canRunWasmModule}. */
export function registerWasmModuleKernels(): void {
  for (const [kernelName, run] of Object.entries(KERNELS)) {
    const stock = tf.getKernel(kernelName, 'wasm') as tf.KernelConfig | undefined;
    if (stock) tf.unregisterKernel(kernelName, 'wasm');
    tf.registerKernel({
      ...stock,
      kernelName,
      backendName: 'wasm',
      kernelFunc: (params) => run(params as unknown as Arguments) ?? stock!.kernelFunc(params),
    });
  }
  registerOwnGradients();
}

/** Bytes between the rows and between the columns of a float32 matrix. */
function stepsOf(width: number, isTransposed: boolean): [rows: number, columns: number] {
  return isTransposed ? [FLOAT_BYTES, FLOAT_BYTES * width] : [FLOAT_BYTES * width, FLOAT_BYTES];
}

/** Returns matrix `i` of a batch; a single matrix is used for all. */
function partOf(tensor: tf.TensorInfo, i: number, batches: number): TensorPointer {
  return { tensor, at: batches === 1 ? 0 : (i * FLOAT_BYTES * elementCountOf(tensor.shape)) / batches };
}

/**
 * Products of matrices, or of batches with equal axes. A single matrix is used for each matrix of
 * the other batch.
 */
function multiply({ inputs, attrs, backend }: Arguments): tf.TensorInfo | null {
  const { a, b } = inputs as { a: tf.TensorInfo; b: tf.TensorInfo };
  const { transposeA, transposeB } = attrs as { transposeA: boolean; transposeB: boolean };
  const [heightA, widthA] = a.shape.slice(-2) as [number, number];
  const [heightB, widthB] = b.shape.slice(-2) as [number, number];
  const [rows, depth] = transposeA ? [widthA, heightA] : [heightA, widthA];
  const [depthB, columns] = transposeB ? [widthB, heightB] : [heightB, widthB];
  const [outerA, outerB] = [a.shape.slice(0, -2), b.shape.slice(0, -2)];
  const [batchesA, batchesB] = [elementCountOf(outerA), elementCountOf(outerB)];
  const areFloats = a.dtype === 'float32' && b.dtype === 'float32';
  const areAlike = batchesA === 1 || batchesB === 1 || tf.util.arraysEqual(outerA, outerB);
  // TensorFlow.js's kernel also has the error message for matrices that do not fit.
  if (!areFloats || !areAlike || depth !== depthB) return null;
  const outer = tf.broadcast_util.assertAndGetBroadcastShape(outerA, outerB);
  const batches = elementCountOf(outer);
  const shape = [...outer, rows, columns];
  // The function writes nothing if there is nothing to add.
  const zeros = depth === 0 ? new Float32Array(elementCountOf(shape)) : undefined;
  const result = backend.makeOutput(shape, 'float32', undefined, zeros);
  const { scratch } = wasmFunctionsOf(backend);
  for (let i = 0; i < batches; i++) {
    callWasmFunction(backend, 'multiply', [
      partOf(result, i, batches),
      FLOAT_BYTES * columns,
      partOf(a, i, batchesA),
      ...stepsOf(widthA, transposeA),
      partOf(b, i, batchesB),
      ...stepsOf(widthB, transposeB),
      rows,
      columns,
      depth,
      0,
      scratch,
    ]);
  }
  return result;
}

/** Runs a function with memory that is freed afterwards. */
function withMemory(backend: WasmBackend, byteLength: number, run: (memory: tf.TensorInfo) => void): void {
  const memory = backend.makeOutput([Math.ceil(byteLength / FLOAT_BYTES)], 'float32');
  run(memory);
  backend.disposeData(memory.dataId);
}

function attentionSizes({
  inputs,
  attrs,
}: Arguments): [allHeads: number, context: number, heads: number, size: number] {
  const [batch, context, packed] = inputs['qkv']!.shape as [number, number, number];
  const heads = attrs['heads'] as number;
  return [batch * heads, context, heads, packed / (3 * heads)];
}

function attention(args: Arguments): tf.TensorInfo {
  const { inputs, backend } = args;
  const sizes = attentionSizes(args);
  const [allHeads, context, heads, size] = sizes;
  const { scratch, attentionBytes } = wasmFunctionsOf(backend);
  const y = backend.makeOutput([allHeads / heads, context, heads * size], 'float32');
  withMemory(backend, attentionBytes(context), (probabilities) =>
    callWasmFunction(backend, 'attention', [y, inputs['qkv']!, probabilities, 0, ...sizes, scratch]),
  );
  return y;
}

function attentionGradient(args: Arguments): tf.TensorInfo {
  const { inputs, backend } = args;
  const [qkv, dy] = [inputs['qkv']!, inputs['dy']!];
  const sizes = attentionSizes(args);
  const { scratch, attentionBytes } = wasmFunctionsOf(backend);
  const dqkv = backend.makeOutput(qkv.shape, 'float32');
  withMemory(backend, 2 * attentionBytes(sizes[1]), (probabilities) =>
    callWasmFunction(backend, 'attentionGradient', [dqkv, qkv, dy, probabilities, 0, ...sizes, scratch]),
  );
  return dqkv;
}

interface ConvolutionAttributes {
  strides: number | [number, number];
  pad: 'valid' | 'same' | number | tf.backend_util.ExplicitPadding;
  dataFormat: 'NHWC' | 'NCHW';
  dimRoundingMode?: 'floor' | 'round' | 'ceil';
}

function filterGradient(args: Arguments): tf.TensorInfo {
  const { inputs, attrs, backend } = args;
  const filter = backend.makeOutput(attrs['filterShape'] as number[], 'float32');
  return convolutionGradient(args, { result: filter, pictures: inputs['x']!, filter });
}

function inputGradient(args: Arguments): tf.TensorInfo {
  const { inputs, attrs, backend } = args;
  const pictures = backend.makeOutput(attrs['inputShape'] as number[], 'float32');
  return convolutionGradient(args, { result: pictures, pictures, filter: inputs['filter']! });
}

/** Computes the gradient of the pictures or of the filter, whichever is the result. */
function convolutionGradient(
  { inputs, attrs, backend }: Arguments,
  { result, pictures, filter }: Record<'result' | 'pictures' | 'filter', tf.TensorInfo>,
): tf.TensorInfo {
  const { strides, pad, dataFormat, dimRoundingMode } = attrs as unknown as ConvolutionAttributes;
  if (dataFormat === 'NCHW') {
    throw new UsageError('The gradient of a convolution needs channels-last tensors on WebAssembly: use NHWC.');
  }
  const shapes = [pictures.shape, filter.shape] as [Shape4, Shape4];
  const info = tf.backend_util.computeConv2DInfo(...shapes, strides, 1, pad, dimRoundingMode);
  const { batchSize, inHeight, inWidth, inChannels, outHeight, outWidth, outChannels } = info;
  const { filterHeight, filterWidth, strideHeight, strideWidth, padInfo } = info;
  const { scratch, windowBytes } = wasmFunctionsOf(backend);
  withMemory(backend, windowBytes(outHeight, outWidth, filterHeight * filterWidth * inChannels), (rows) =>
    callWasmFunction(backend, 'convolutionGradient', [
      ...[result === filter ? 1 : 0, pictures, filter, inputs['dy']!, rows],
      ...[batchSize, inHeight, inWidth, inChannels, outHeight, outWidth, outChannels],
      ...[filterHeight, filterWidth, strideHeight, strideWidth, padInfo.top, padInfo.left, scratch],
    ]),
  );
  return result;
}

/** Returns the arguments that both gradients of a depthwise convolution have. */
function depthwiseSizes(pictures: tf.TensorInfo, filter: tf.TensorInfo, attrs: tf.NamedAttrMap): number[] {
  const info = depthwiseInfo(pictures.shape, filter.shape, attrs);
  const { inHeight, outHeight, filterHeight, strideHeight, dilationHeight, padInfo } = info;
  const { inWidth, outWidth, filterWidth, strideWidth, dilationWidth } = info;
  return [
    ...[info.batchSize, info.inChannels, filter.shape[3]!],
    ...[inHeight, outHeight, filterHeight, strideHeight, dilationHeight, padInfo.top],
    ...[inWidth, outWidth, filterWidth, strideWidth, dilationWidth, padInfo.left],
  ];
}

function depthwiseFilterGradient({ inputs, attrs, backend }: Arguments): tf.TensorInfo {
  const { x, dy } = inputs as Record<'x' | 'dy', tf.TensorInfo>;
  const filter = backend.makeOutput(attrs['filterShape'] as number[], 'float32');
  const sizes = depthwiseSizes(x, filter, attrs);
  withMemory(backend, DOUBLE_BYTES * elementCountOf(filter.shape), (sums) =>
    callWasmFunction(backend, 'depthwiseFilterGradient', [filter, x, dy, sums, ...sizes]),
  );
  return filter;
}

function depthwiseInputGradient({ inputs, attrs, backend }: Arguments): tf.TensorInfo {
  const { filter, dy } = inputs as Record<'filter' | 'dy', tf.TensorInfo>;
  const dx = backend.makeOutput(attrs['inputShape'] as number[], 'float32');
  const sizes = depthwiseSizes(dx, filter, attrs);
  callWasmFunction(backend, 'depthwiseInputGradient', [dx, filter, dy, ...sizes]);
  return dx;
}

function poolGradient(
  { inputs, attrs, backend }: Arguments,
  infoOf: (shape: number[], attrs: object) => Conv2DInfo | Conv3DInfo,
  ofMaximum = false,
): tf.TensorInfo {
  const { input, dy } = inputs as Record<'input' | 'dy', tf.TensorInfo>;
  const info = infoOf(input.shape, attrs);
  const { batchSize, inChannels, padInfo } = info;
  const { inHeight, outHeight, filterHeight, strideHeight, inWidth, outWidth, filterWidth, strideWidth } = info;
  const dx = backend.makeOutput(input.shape, 'float32');
  callWasmFunction(backend, 'poolGradient', [
    ...[ofMaximum ? 1 : 0, dx, input, dy, batchSize, inChannels],
    ...('inDepth' in info
      ? [info.inDepth, info.outDepth, info.filterDepth, info.strideDepth, info.padInfo.front]
      : [1, 1, 1, 1, 0]),
    ...[inHeight, outHeight, filterHeight, strideHeight, padInfo.top],
    ...[inWidth, outWidth, filterWidth, strideWidth, padInfo.left],
  ]);
  return dx;
}

/** Adds one row, such as a bias, to each row. TensorFlow.js calls a function for each row. */
function addRow({ inputs: { a, b }, backend }: Arguments): tf.TensorInfo | null {
  const [x, row] = a!.shape.length < b!.shape.length ? [b!, a!] : [a!, b!];
  const columns = elementCountOf(row.shape);
  const areFloats = x.dtype === 'float32' && row.dtype === 'float32';
  const isRow = row.shape.length === 1 && x.shape.length > 1 && x.shape.at(-1) === columns && columns > 0;
  if (!areFloats || !isRow) return null;
  const y = backend.makeOutput(x.shape, 'float32');
  callWasmFunction(backend, 'addRow', [y, x, row, elementCountOf(x.shape) / columns, columns]);
  return y;
}

/**
 * Sums all axes except the last one, as the gradient of {@link addRow} does. TensorFlow.js
 * transposes the tensor first.
 */
function sumRows({ inputs, attrs, backend }: Arguments): tf.TensorInfo | null {
  const x = inputs['x']!;
  const { axis, keepDims } = attrs as { axis: number | number[]; keepDims: boolean };
  const axes = tf.util.parseAxisParam(axis, x.shape);
  const last = x.shape.length - 1;
  const areOthers = x.shape.every((_, i) => axes.includes(i) === i < last);
  const columns = x.shape[last]!;
  if (x.dtype !== 'float32' || !areOthers || last < 1 || columns === 0) return null;
  const sum = backend.makeOutput([columns], 'float32');
  callWasmFunction(backend, 'sumRows', [sum, x, elementCountOf(x.shape) / columns, columns]);
  return keepDims ? { ...sum, shape: tf.backend_util.expandShapeToKeepDim([columns], axes) } : sum;
}

function columnSum({ inputs: { x }, attrs, backend }: Arguments): tf.TensorInfo {
  const { from, to } = attrs as { from: number; to: number };
  const columns = x!.shape.at(-1)!;
  const sums = backend.makeOutput([to - from], 'float32');
  const first = { tensor: x!, at: FLOAT_BYTES * from };
  callWasmFunction(backend, 'sumColumns', [
    sums,
    first,
    FLOAT_BYTES * columns,
    elementCountOf(x!.shape) / columns,
    to - from,
  ]);
  return sums;
}

/** Returns the sum of the losses, and [rows, 3] values for the gradient. */
function crossEntropy({ inputs, backend }: Arguments): tf.TensorInfo[] {
  const { logits, labels, weights } = inputs as Record<'logits' | 'labels' | 'weights', tf.TensorInfo>;
  const [rows, classes] = logits.shape as [number, number];
  const [sum, kept] = [backend.makeOutput([], 'float32'), backend.makeOutput([rows, 3], 'float32')];
  callWasmFunction(backend, 'crossEntropy', [sum, kept, logits, labels, weights, rows, classes]);
  return [sum, kept];
}

function crossEntropyGradient({ inputs, backend }: Arguments): tf.TensorInfo {
  const logits = inputs['logits']!;
  const [rows, classes] = logits.shape as [number, number];
  const result = backend.makeOutput(logits.shape, 'float32');
  const others = ['labels', 'weights', 'kept', 'dy'].map((name) => inputs[name]!);
  callWasmFunction(backend, 'crossEntropyGradient', [result, logits, ...others, rows, classes]);
  return result;
}

function normSizes({ inputs, attrs }: Arguments): [rows: number, columns: number, epsilon: number] {
  const { shape } = inputs['x']!;
  const columns = shape.at(-1)!;
  return [elementCountOf(shape) / columns, columns, attrs['epsilon'] as number];
}

function rmsNorm(args: Arguments): tf.TensorInfo {
  const { inputs, backend } = args;
  const y = backend.makeOutput(inputs['x']!.shape, 'float32');
  callWasmFunction(backend, 'rmsNorm', [y, inputs['x']!, inputs['scale']!, ...normSizes(args)]);
  return y;
}

function rmsNormGradient(args: Arguments): tf.TensorInfo {
  const { inputs, backend } = args;
  const dx = backend.makeOutput(inputs['x']!.shape, 'float32');
  const [x, scale, dy] = [inputs['x']!, inputs['scale']!, inputs['dy']!];
  callWasmFunction(backend, 'rmsNormGradient', [dx, x, scale, dy, inputs['dPassed'] ?? 0, ...normSizes(args)]);
  return dx;
}

function rmsNormScaleProducts(args: Arguments): tf.TensorInfo {
  const { inputs, backend } = args;
  const [rows, columns, epsilon] = normSizes(args);
  const products = backend.makeOutput([rows, columns], 'float32');
  callWasmFunction(backend, 'rmsNormScaleProducts', [products, inputs['x']!, inputs['dy']!, rows, columns, epsilon]);
  return products;
}
