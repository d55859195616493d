/**
 * Kernels of layers that slide a window over their input, for TensorFlow.js's WebAssembly backend:
 * those that it lacks, and those that it computes wrongly.
 */
import * as tf from '@tensorflow/tfjs';
import type { BackendWasm } from '@tensorflow/tfjs-backend-wasm';
import { UsageError } from '../../util/errors.ts';
import { canRunWasmModule } from '../../wasm/functions.ts';
import {
  depthwiseInfo,
  pool2DInfo,
  pool3DInfo,
  type Conv2DInfo,
  type Conv3DInfo,
  type Shape4,
  type Shape5,
} from '../../wasm/windowInfo.ts';
import { floatViewsOf, registerWasmKernel, replaceWasmKernel, type WasmKernel } from './wasmRegistry.ts';

const { computeConv2DInfo, computeConv3DInfo } = tf.backend_util;

/** The attributes of these kernels. Each kernel has only some of them. */
interface Attributes {
  strides: number | [number, number];
  dilations: number | [number, number] | null;
  pad: 'valid' | 'same' | number;
  dimRoundingMode?: 'floor' | 'round' | 'ceil';
  filterShape: Shape4;
  inputShape: Shape4;
}
type Attributes3D = Pick<Attributes, 'pad' | 'dimRoundingMode'> & {
  strides: number | [number, number, number];
  filterShape: Shape5;
  inputShape: Shape5;
};

/** Registers the kernels in place of TensorFlow.js's. */
export function registerWasmWindowKernels(): void {
  for (const [name, isDepthwise] of CONVOLUTIONS) padExplicitly(name, isDepthwise);
  for (const name of ['AvgPool', 'MaxPool']) checkPooling(name);
  // TensorFlow.js starts a maximum at the smallest positive float, not at the lowest float. So
  // windows without a positive element have the maximum 0 and no gradient.
  registerWasmKernel('MaxPool3D', maxPool3D);
  // TensorFlow.js's 3D convolution has a wrong gradient of the input. Its gradient of the filter is
  // wrong unless all strides are 1.
  registerWasmKernel('Conv3DBackpropFilterV2', convolution3DFilterGradient);
  registerWasmKernel('Conv3DBackpropInputV2', convolution3DInputGradient);
  if (canRunWasmModule()) return;
  for (const [name, kernel] of Object.entries(GRADIENTS_IN_JAVASCRIPT)) registerWasmKernel(name, kernel);
}

const CONVOLUTIONS = [
  ['Conv2D', false],
  ['FusedConv2D', false],
  ['DepthwiseConv2dNative', true],
  ['FusedDepthwiseConv2D', true],
] as const;

/**
 * Replaces padding `same` by the number of rows and columns that it stands for. XNNPACK, which the
 * kernels call, computes this number itself, and fails if it is negative. It is negative if strides
 * skip pixels, so that the windows do not reach the end of the input. TensorFlow.js 4.22 ignores
 * the failure, so the result would be zeros.
 */
function padExplicitly(kernelName: string, isDepthwise: boolean): void {
  replaceWasmKernel(kernelName, (params, original) => {
    const { strides, dilations, pad, dimRoundingMode } = params.attrs as unknown as Attributes;
    const [x, filter] = [params.inputs['x']!.shape as Shape4, params.inputs['filter']!.shape as Shape4];
    const info = computeConv2DInfo(x, filter, strides, dilations ?? 1, pad, dimRoundingMode, isDepthwise);
    checkShape(kernelName, info);
    if (pad !== 'same') return original(params);
    const { top, bottom, left, right } = info.padInfo;
    const explicit = [
      [0, 0],
      [top, bottom],
      [left, right],
      [0, 0],
    ];
    return original({ ...params, attrs: { ...params.attrs, pad: explicit } });
  });
}

function checkPooling(kernelName: string): void {
  replaceWasmKernel(kernelName, (params, original) => {
    checkShape(kernelName, pool2DInfo(params.inputs['x']!.shape, params.attrs!));
    return original(params);
  });
}

/**
 * Checks that XNNPACK writes as many elements as TensorFlow.js allocates. With more elements,
 * XNNPACK would write over the memory of other tensors. The two numbers can differ: XNNPACK always
 * rounds down, and if the padding is a number, TensorFlow.js computes both sides from the height of
 * the window and the vertical stride.
 */
function checkShape(kernelName: string, info: Conv2DInfo): void {
  const { padInfo, inHeight, outHeight, strideHeight, effectiveFilterHeight } = info;
  const { inWidth, outWidth, strideWidth, effectiveFilterWidth } = info;
  const rows = Math.floor((inHeight + padInfo.top + padInfo.bottom - effectiveFilterHeight) / strideHeight) + 1;
  const columns = Math.floor((inWidth + padInfo.left + padInfo.right - effectiveFilterWidth) / strideWidth) + 1;
  if (rows === outHeight && columns === outWidth && rows > 0 && columns > 0) return;
  throw new UsageError(
    `${kernelName}: WebAssembly computes an output of ${rows} x ${columns}, but TensorFlow.js expects ${outHeight} x ${outWidth}. ` +
      "Pass `pad` as 'same', 'valid' or [[0, 0], [top, bottom], [left, right], [0, 0]], and 'floor' or nothing as `dimRoundingMode`.",
  );
}

/**
 * Filters are float32 [height, width, in, multiplier]. Output channel c * multiplier + m belongs to
 * input channel c.
 */
const depthwiseFilterGradient: WasmKernel<Attributes> = ({ x: input, dy: output }, attributes, backend) => {
  const { filterShape } = attributes;
  const info = depthwiseInfo(input!.shape, filterShape, attributes);
  const { inChannels, outChannels } = info;
  const result = backend.makeOutput(filterShape, 'float32');
  const [x, dy, gradient] = floatViewsOf(backend, input!, output!, result);
  // The sums have a term for each sample and position. Float64 keeps their rounding errors small.
  const sums = new Float64Array(gradient!.length);
  forEachTap(info, (from, to, tap) => {
    for (let out = 0; out < outChannels; out++) {
      const channel = Math.floor(out / filterShape[3]);
      sums[tap * outChannels + out]! += x![from * inChannels + channel]! * dy![to * outChannels + out]!;
    }
  });
  gradient!.set(sums);
  return result;
};

const depthwiseInputGradient: WasmKernel<Attributes> = ({ dy: output, filter: weights }, attributes, backend) => {
  const { inputShape } = attributes;
  const info = depthwiseInfo(inputShape, weights!.shape, attributes);
  const { inChannels, outChannels } = info;
  const result = backend.makeOutput(inputShape, 'float32');
  const [dy, filter, dx] = floatViewsOf(backend, output!, weights!, result);
  dx!.fill(0);
  forEachTap(info, (to, from, tap) => {
    for (let out = 0; out < outChannels; out++) {
      const channel = Math.floor(out / weights!.shape[3]!);
      dx![to * inChannels + channel]! += dy![from * outChannels + out]! * filter![tap * outChannels + out]!;
    }
  });
  return result;
};

const convolutionFilterGradient: WasmKernel<Attributes> = (
  inputs,
  { strides, pad, dimRoundingMode, filterShape },
  backend,
) =>
  filterGradient(
    computeConv2DInfo(inputs['x']!.shape as Shape4, filterShape, strides, 1, pad, dimRoundingMode),
    inputs,
    backend,
  );

const convolution3DFilterGradient: WasmKernel<Attributes3D> = (inputs, { strides, pad, filterShape }, backend) =>
  filterGradient(computeConv3DInfo(inputs['x']!.shape as Shape5, filterShape, strides, 1, pad), inputs, backend);

/** Filters are float32 [height, width, in, out], in 3D with the depth before the height. */
function filterGradient(
  info: Conv2DInfo | Conv3DInfo,
  inputs: tf.NamedTensorInfoMap,
  backend: BackendWasm,
): tf.TensorInfo {
  const { inChannels, outChannels } = info;
  const result = backend.makeOutput(info.filterShape, 'float32');
  const [x, dy, gradient] = floatViewsOf(backend, inputs['x']!, inputs['dy']!, result);
  const sums = new Float64Array(gradient!.length);
  forEachTap(info, (from, to, tap) => {
    for (let channel = 0; channel < inChannels; channel++) {
      const [value, at] = [x![from * inChannels + channel]!, (tap * inChannels + channel) * outChannels];
      for (let out = 0; out < outChannels; out++) sums[at + out]! += value * dy![to * outChannels + out]!;
    }
  });
  gradient!.set(sums);
  return result;
}

const convolution3DInputGradient: WasmKernel<Attributes3D> = (inputs, { strides, pad, inputShape }, backend) => {
  const info = computeConv3DInfo(inputShape, inputs['filter']!.shape as Shape5, strides, 1, pad);
  const { inChannels, outChannels } = info;
  const result = backend.makeOutput(inputShape, 'float32');
  const [dy, filter, dx] = floatViewsOf(backend, inputs['dy']!, inputs['filter']!, result);
  dx!.fill(0);
  forEachTap(info, (to, from, tap) => {
    for (let channel = 0; channel < inChannels; channel++) {
      const at = (tap * inChannels + channel) * outChannels;
      let sum = 0;
      for (let out = 0; out < outChannels; out++) sum += dy![from * outChannels + out]! * filter![at + out]!;
      dx![to * inChannels + channel]! += sum;
    }
  });
  return result;
};

const maxPool3D: WasmKernel<object> = (inputs, attributes, backend) => {
  const info = pool3DInfo(inputs['x']!.shape, attributes);
  const result = backend.makeOutput(info.outShape, inputs['x']!.dtype);
  const [x, y] = floatViewsOf(backend, inputs['x']!, result);
  y!.fill(-Infinity);
  const channels = info.inChannels;
  forEachTap(info, (input, output) => {
    for (let c = 0; c < channels; c++) {
      y![output * channels + c] = Math.max(y![output * channels + c]!, x![input * channels + c]!);
    }
  });
  return result;
};

/**
 * The gradient of a window belongs to the first of its elements that is greater than all before it.
 * NaN is not greater.
 */
function maxPoolGradient(
  info: Conv2DInfo | Conv3DInfo,
  inputs: tf.NamedTensorInfoMap,
  backend: BackendWasm,
): tf.TensorInfo {
  const result = backend.makeOutput(info.inShape, 'float32');
  const [x, dy, dx] = floatViewsOf(backend, inputs['input']!, inputs['dy']!, result);
  const largest = new Float32Array(dy!.length).fill(-Infinity);
  const places = new Int32Array(dy!.length).fill(-1);
  const channels = info.inChannels;
  forEachTap(info, (input, output) => {
    for (let c = 0; c < channels; c++) {
      const [from, to] = [output * channels + c, input * channels + c];
      if (!(x![to]! > largest[from]!)) continue;
      largest[from] = x![to]!;
      places[from] = to;
    }
  });
  dx!.fill(0);
  for (const [from, to] of places.entries()) if (to >= 0) dx![to]! += dy![from]!;
  return result;
}

const maxPool2DGradient: WasmKernel<object> = (inputs, attributes, backend) =>
  maxPoolGradient(pool2DInfo(inputs['input']!.shape, attributes), inputs, backend);

const maxPool3DGradient: WasmKernel<object> = (inputs, attributes, backend) =>
  maxPoolGradient(pool3DInfo(inputs['input']!.shape, attributes), inputs, backend);

/**
 * Gradients that TensorFlow.js lacks or computes wrongly, for browsers that cannot run the kernels
 * of wasm/kernels.ts.
 */
export const GRADIENTS_IN_JAVASCRIPT: Readonly<Record<string, WasmKernel<never>>> = {
  Conv2DBackpropFilter: convolutionFilterGradient,
  DepthwiseConv2dNativeBackpropFilter: depthwiseFilterGradient,
  DepthwiseConv2dNativeBackpropInput: depthwiseInputGradient,
  MaxPoolGrad: maxPool2DGradient,
  MaxPool3DGrad: maxPool3DGradient,
};

/**
 * Goes through the windows of all samples, and calls `visit` for each element of a window that lies
 * in the input. The elements of one window are visited in the order of their indices. `visit`
 * receives three indices: of a position in the input, in the output, and in the window. Positions
 * of the input and the output are counted over all samples. A position has one value for each
 * channel.
 */
function forEachTap(info: Conv2DInfo | Conv3DInfo, visit: (input: number, output: number, tap: number) => void): void {
  const [depths, rows, columns] = axesOf(info);
  const planes = depths!.taps.flatMap((depth) =>
    rows!.taps.map((row) => ({
      input: depth.input * rows!.size + row.input,
      output: depth.output * rows!.outputs + row.output,
      tap: depth.tap * rows!.window + row.tap,
    })),
  );
  const [inputs, outputs] = [depths!.size * rows!.size, depths!.outputs * rows!.outputs];
  for (let sample = 0; sample < info.batchSize; sample++) {
    for (const line of planes) {
      const [input, output] = [sample * inputs + line.input, sample * outputs + line.output];
      for (const column of columns!.taps) {
        visit(
          input * columns!.size + column.input,
          output * columns!.outputs + column.output,
          line.tap * columns!.window + column.tap,
        );
      }
    }
  }
}

interface Axis {
  size: number;
  outputs: number;
  window: number;
  /** Along this axis: the elements of each window that lie inside the input, window by window. */
  taps: { input: number; output: number; tap: number }[];
}

/** Returns the axes depth, height and width. The depth of pictures is 1. */
function axesOf(info: Conv2DInfo | Conv3DInfo): Axis[] {
  const { padInfo } = info;
  const depth =
    'inDepth' in info
      ? axisOf(
          ...([info.inDepth, info.outDepth, info.filterDepth] as const),
          ...([info.strideDepth, info.dilationDepth, (padInfo as Conv3DInfo['padInfo']).front] as const),
        )
      : axisOf(1, 1, 1, 1, 1, 0);
  const { inHeight, outHeight, filterHeight, strideHeight, dilationHeight } = info;
  const { inWidth, outWidth, filterWidth, strideWidth, dilationWidth } = info;
  return [
    depth,
    axisOf(inHeight, outHeight, filterHeight, strideHeight, dilationHeight, padInfo.top),
    axisOf(inWidth, outWidth, filterWidth, strideWidth, dilationWidth, padInfo.left),
  ];
}

function axisOf(
  ...[size, outputs, window, stride, dilation, before]: [number, number, number, number, number, number]
): Axis {
  const taps: Axis['taps'] = [];
  for (let output = 0; output < outputs; output++) {
    for (let tap = 0; tap < window; tap++) {
      const input = output * stride + tap * dilation - before;
      if (input >= 0 && input < size) taps.push({ input, output, tap });
    }
  }
  return { size, outputs, window, taps };
}
