/** Forward pass of one layer, with this project's kernels if they support the layer. */
import * as tf from '@tensorflow/tfjs';
import { conv2d, type Conv2dOptions } from '../../gpu/kernels/conv2d/conv2d.ts';
import { layerNorm } from '../../gpu/kernels/layerNorm.ts';
import { linear } from '../../gpu/kernels/linear.ts';
import type { MatMulActivation } from '../../gpu/kernels/matMul/epilogue.ts';
import { usesOwnKernels } from '../../gpu/kernels/registry.ts';

/**
 * Applies `layer` in training mode, differentiable. These layers are single ops with this project's
 * kernels: dense and convolution layers without activation or with ReLU, dense layers with GELU,
 * and layer normalization over the last axis. TensorFlow.js computes all other layers. On backends
 * without these kernels, it also computes dense and convolution layers.
 *
 * @param inputs the layer's inputs, float32 [batch, ...]
 * @returns float32 [batch, ...]
 */
export function applyLayerForTraining(layer: tf.layers.Layer, inputs: readonly tf.Tensor[]): tf.Tensor {
  const [x] = inputs as [tf.Tensor, ...tf.Tensor[]];
  const own = x.dtype === 'float32' ? applyOwn(layer, x) : null;
  return own ?? (layer.apply(inputs.length === 1 ? x : [...inputs], { training: true }) as tf.Tensor);
}

/** Returns `null` if the kernels do not support the layer. */
function applyOwn(layer: tf.layers.Layer, x: tf.Tensor): tf.Tensor | null {
  const apply = APPLY[layer.getClassName()];
  if (!apply) return null;
  const weights = layer.weights.map((weight) => weight.read());
  return apply(layer.getConfig() as unknown as LayerConfig, x, weights);
}

/** The fields of layer configurations that the kernels depend on. No layer has all of them. */
interface LayerConfig {
  activation: string;
  strides: Conv2dOptions['strides'];
  padding: string;
  dataFormat: string;
  dilationRate: number[];
  /** Indices of the axes, counted from the first axis of the input. */
  axis: number[];
  epsilon: number;
  scale: boolean;
  center: boolean;
}

/** Activations that the kernel of a dense layer applies itself, by TensorFlow.js's names. */
const FUSED: ReadonlyMap<string, MatMulActivation | undefined> = new Map([
  ['linear', undefined],
  ['relu', 'relu'],
  ['gelu', 'geluErf'],
  ['gelu_new', 'gelu'],
]);

type Apply = (config: LayerConfig, x: tf.Tensor, weights: tf.Tensor[]) => tf.Tensor | null;

const APPLY: Partial<Record<string, Apply>> = {
  Dense: ({ activation }, x, [kernel, bias]) => {
    if (!usesOwnKernels() || x.rank !== 2 || !FUSED.has(activation)) return null;
    return linear(x, kernel!, { bias, activation: FUSED.get(activation) });
  },
  Conv2D: ({ activation, strides, padding, dataFormat, dilationRate }, x, [kernel, bias]) => {
    if (!usesOwnKernels() || (activation !== 'linear' && activation !== 'relu')) return null;
    if (dataFormat !== 'channelsLast' || dilationRate.some((rate) => rate !== 1)) return null;
    if (padding !== 'same' && padding !== 'valid') return null;
    return conv2d(x as tf.Tensor4D, kernel as tf.Tensor4D, {
      strides,
      pad: padding,
      activation,
      ...(bias && { bias }),
    });
  },
  // This project's op is used on all backends, because TensorFlow.js's layer has no gradient if it
  // has no scale or no offset.
  LayerNormalization: ({ axis, epsilon, scale, center }, x, weights) => {
    if (axis.length !== 1 || axis[0] !== x.rank - 1) return null;
    const channels = x.shape.at(-1)!;
    return layerNorm(
      x,
      scale ? weights[0]! : tf.ones([channels]),
      center ? weights.at(-1)! : tf.zeros([channels]),
      epsilon,
    );
  },
};
