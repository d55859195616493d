/** Two-dimensional convolution for training, and kernels for TensorFlow.js's convolution ops. */
import * as tf from '@tensorflow/tfjs';
import { columnSum, runColumnSum } from '../columnSum.ts';
import { usesOwnKernels, type KernelArguments, type KernelReplacement, type TrainingOp } from '../registry.ts';
import { filterGradientSums } from './filterGradient.ts';
import { runConvolution, type ConvolutionActivation } from './forward.ts';
import { convolutionGeometryOf, type ConvolutionGeometry } from './geometry.ts';
import { runInputGradient } from './inputGradient.ts';
import { elementCountOf } from '../../../util/shape.ts';

export interface Conv2dOptions {
  strides: [height: number, width: number];
  pad: 'same' | 'valid';
  /** float32 [output channels] */
  bias?: tf.Tensor;
  activation?: ConvolutionActivation;
}

/**
 * Computes `activation(conv2d(x, filter) + bias)`.
 *
 * @param x float32 [batch, height, width, channels]
 * @param filter float32 [height, width, channels, output channels]
 * @returns float32 [batch, height, width, output channels]
 */
export function conv2d(x: tf.Tensor4D, filter: tf.Tensor4D, options: Conv2dOptions): tf.Tensor4D {
  const { bias, activation = 'linear', ...rest } = options;
  if (!usesOwnKernels()) return tf.fused.conv2d({ x, filter, activation, ...rest, ...(bias && { bias }) });
  const attrs = { ...rest, activation, hasBias: bias !== undefined };
  return tf.engine().runKernel('Convolution', { x, filter, ...(bias && { bias }) }, attrs) as tf.Tensor4D;
}

type Arguments = KernelArguments<tf.NamedAttrMap>;

/** The op's attributes are validated by TensorFlow.js, or fixed by {@link conv2d}. */
function geometryFor(x: readonly number[], filter: readonly number[], attrs: tf.NamedAttrMap): ConvolutionGeometry {
  return convolutionGeometryOf(x, filter, attrs)!;
}

const convolutionOp: TrainingOp = {
  kernelName: 'Convolution',
  run: ({ inputs, attrs, backend }: Arguments) => {
    const [x, filter] = [inputs['x']!, inputs['filter']!];
    const activation = attrs['activation'] as ConvolutionActivation;
    return runConvolution(backend, geometryFor(x.shape, filter.shape, attrs), {
      x,
      filter,
      bias: inputs['bias'],
      activation,
    });
  },
  gradient: {
    inputsToSave: ['x', 'filter'],
    outputsToSave: [true],
    gradFunc: (dys, saved, attrs) => {
      const [x, filter, y] = saved as [tf.Tensor4D, tf.Tensor4D, tf.Tensor4D];
      const dy = dys as tf.Tensor4D;
      const mask = attrs['activation'] === 'relu' ? { y } : {};
      const { shape, size } = filter;
      const engine = tf.engine();
      // The gradients of filter and bias both use these sums. The tidy of the backward pass
      // disposes of them.
      const sums = engine.runKernel(
        'ConvolutionFilterSums',
        { x, dy, ...mask },
        { ...attrs, filterShape: shape },
      ) as tf.Tensor;
      return {
        x: () =>
          engine.runKernel(
            'ConvolutionInputGradient',
            { dy, filter, ...mask },
            { ...attrs, inputShape: x.shape },
          ) as tf.Tensor,
        filter: () => columnSum(sums, 0, size).reshape(shape),
        bias: () => columnSum(sums, size),
      };
    },
  },
};

const filterSumsOp: TrainingOp = {
  kernelName: 'ConvolutionFilterSums',
  run: ({ inputs, attrs, backend }: Arguments) => {
    const [x, dy, y] = [inputs['x']!, inputs['dy']!, inputs['y']];
    const geometry = geometryFor(x.shape, attrs['filterShape'] as number[], attrs);
    return filterGradientSums(backend, geometry, { x, dy, y, hasBias: attrs['hasBias'] as boolean });
  },
};

const inputGradientOp: TrainingOp = {
  kernelName: 'ConvolutionInputGradient',
  run: ({ inputs, attrs, backend }: Arguments) => {
    const [dy, filter, y] = [inputs['dy']!, inputs['filter']!, inputs['y']];
    const geometry = geometryFor(attrs['inputShape'] as number[], filter.shape, attrs);
    return runInputGradient(backend, geometry, { dy, filter, y });
  },
};

export const convolutionOps: readonly TrainingOp[] = [convolutionOp, filterSumsOp, inputGradientOp];

/**
 * TensorFlow.js's kernels for small convolutions copy patches to a matrix, and then multiply with
 * atomic additions, whose results differ between runs.
 */
export const conv2dReplacements: readonly KernelReplacement[] = [
  { kernelName: 'Conv2D', run: (args) => runForward(args, 'linear') },
  {
    kernelName: 'FusedConv2D',
    run: (args) => {
      const { filter, bias, preluActivationWeights } = args.inputs;
      const activation = (args.attrs['activation'] ?? 'linear') as string;
      if (preluActivationWeights || (activation !== 'linear' && activation !== 'relu')) return null;
      // TensorFlow.js also accepts biases that are broadcast.
      if (bias && (bias.shape.length !== 1 || bias.shape[0] !== filter!.shape[3])) return null;
      return runForward(args, activation);
    },
  },
  {
    kernelName: 'Conv2DBackpropInput',
    run: ({ inputs, attrs, backend }) => {
      const [dy, filter] = [inputs['dy']!, inputs['filter']!];
      const geometry = servedGeometry(inputs, attrs['inputShape'] as number[], filter.shape, attrs);
      return geometry && runInputGradient(backend, geometry, { dy, filter, y: undefined });
    },
  },
  {
    kernelName: 'Conv2DBackpropFilter',
    run: ({ inputs, attrs, backend }) => {
      const [x, dy] = [inputs['x']!, inputs['dy']!];
      const filterShape = attrs['filterShape'] as [number, number, number, number];
      const geometry = servedGeometry(inputs, x.shape, filterShape, attrs);
      if (!geometry) return null;
      const sums = filterGradientSums(backend, geometry, { x, dy, y: undefined, hasBias: false });
      const gradient = runColumnSum(backend, sums, { count: elementCountOf(filterShape) });
      backend.disposeData(sums.dataId);
      return { ...gradient, shape: filterShape };
    },
  },
];

/** Returns `null` if the stock kernel should compute the result. */
function servedGeometry(
  inputs: tf.NamedTensorInfoMap,
  x: readonly number[],
  filter: readonly number[],
  attrs: tf.NamedAttrMap,
): ConvolutionGeometry | null {
  // An optional input may be undefined.
  const given = Object.values(inputs as Record<string, tf.TensorInfo | undefined>);
  return given.every((input) => input === undefined || input.dtype === 'float32')
    ? convolutionGeometryOf(x, filter, attrs)
    : null;
}

function runForward({ inputs, attrs, backend }: Arguments, activation: ConvolutionActivation): tf.TensorInfo | null {
  const [x, filter] = [inputs['x']!, inputs['filter']!];
  const geometry = servedGeometry(inputs, x.shape, filter.shape, attrs);
  return geometry && runConvolution(backend, geometry, { x, filter, bias: inputs['bias'], activation });
}
