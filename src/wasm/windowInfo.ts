/**
 * Shapes, strides and padding of the windows of pooling and of depthwise convolutions, from the
 * attributes of TensorFlow.js's kernels.
 */
import * as tf from '@tensorflow/tfjs';

export type Conv2DInfo = tf.backend_util.Conv2DInfo;
export type Conv3DInfo = tf.backend_util.Conv3DInfo;
export type Shape4 = [number, number, number, number];
export type Shape5 = [number, number, number, number, number];

interface WindowAttributes<Sides> {
  strides: number | Sides;
  pad: 'valid' | 'same' | number;
  dimRoundingMode?: 'floor' | 'round' | 'ceil';
}
type PoolAttributes<Sides> = WindowAttributes<Sides> & { filterSize: number | Sides };
type DepthwiseAttributes = WindowAttributes<[number, number]> & { dilations: number | [number, number] | null };

/** @param shape [batch, height, width, channels] of the input. */
export function pool2DInfo(shape: number[], attrs: object): Conv2DInfo {
  const { filterSize, strides, pad, dimRoundingMode } = attrs as PoolAttributes<[number, number]>;
  return tf.backend_util.computePool2DInfo(shape as Shape4, filterSize, strides, 1, pad, dimRoundingMode);
}

/** @param shape [batch, depth, height, width, channels] of the input. */
export function pool3DInfo(shape: number[], attrs: object): Conv3DInfo {
  const { filterSize, strides, pad, dimRoundingMode } = attrs as PoolAttributes<[number, number, number]>;
  return tf.backend_util.computePool3DInfo(shape as Shape5, filterSize, strides, 1, pad, dimRoundingMode);
}

/**
 * @param x shape [batch, height, width, channels] of the input.
 * @param filter shape [height, width, channels, multiplier].
 */
export function depthwiseInfo(x: number[], filter: number[], attrs: object): Conv2DInfo {
  const { strides, dilations, pad, dimRoundingMode } = attrs as DepthwiseAttributes;
  const shapes = [x, filter] as [Shape4, Shape4];
  return tf.backend_util.computeConv2DInfo(...shapes, strides, dilations ?? 1, pad, dimRoundingMode, true);
}
