/** Forward pass of one layer, with this project's kernels where they serve it. */
import type * as tf from '@tensorflow/tfjs';
import { conv2d, type Conv2dOptions } from '../../kernels/conv2d/conv2d.ts';
import { linear } from '../../kernels/linear.ts';
import { usesOwnKernels } from '../../kernels/registry.ts';

/**
 * Applies `layer` in training mode, differentiable. With own kernels, dense and convolution layers
 * without activation or with ReLU are single ops; all other layers are TensorFlow.js's, as are all
 * layers on other backends.
 *
 * @param inputs the layer's inputs, float32 [batch, ...]
 * @returns float32 [batch, ...]
 */
export function applyLayer(layer: tf.layers.Layer, inputs: readonly tf.Tensor[]): tf.Tensor {
  const [x] = inputs as [tf.Tensor, ...tf.Tensor[]];
  const own = usesOwnKernels() && x.dtype === 'float32' ? applyOwn(layer, x) : null;
  return own ?? (layer.apply(inputs.length === 1 ? x : [...inputs], { training: true }) as tf.Tensor);
}

/** What the configurations of dense and convolution layers have in common, and convolutions add. */
interface LayerConfig {
  activation: string;
  strides: Conv2dOptions['strides'];
  padding: string;
  dataFormat: string;
  dilationRate: number[];
}

/** Returns `null` if the kernels do not serve the layer. */
function applyOwn(layer: tf.layers.Layer, x: tf.Tensor): tf.Tensor | null {
  const name = layer.getClassName();
  if (name !== 'Dense' && name !== 'Conv2D') return null;
  const { activation, strides, padding, dataFormat, dilationRate } = layer.getConfig() as unknown as LayerConfig;
  if (activation !== 'linear' && activation !== 'relu') return null;
  const [weights, bias] = layer.weights.map((weight) => weight.read()) as [tf.Tensor, tf.Tensor?];
  if (name === 'Dense') {
    return x.rank === 2
      ? linear(x, weights, { bias, activation: activation === 'relu' ? activation : undefined })
      : null;
  }
  if (dataFormat !== 'channelsLast' || dilationRate.some((rate) => rate !== 1)) return null;
  if (padding !== 'same' && padding !== 'valid') return null;
  return conv2d(x as tf.Tensor4D, weights as tf.Tensor4D, { strides, pad: padding, activation, ...(bias && { bias }) });
}
