/**
 * Losses. A loss is a weighted sum over samples instead of a mean, so that the gradients of all
 * ranks can be added.
 */
import * as tf from '@tensorflow/tfjs';
import { crossEntropySum } from '../../gpu/kernels/crossEntropy.ts';
import type { RegressionLossName, JobLossName } from '../../spec/measures.ts';

/** Loss functions of the difference between output and target amount. */
const COSTS: Record<RegressionLossName, (distance: tf.Tensor) => tf.Tensor> = {
  'mean-squared-error': (distance) => tf.mul(distance, distance),
  // `tf.abs` is not used, because its gradient at distance 0 is -1. The gradient of this product is
  // 0 there, as in PyTorch's L1Loss.
  'mean-absolute-error': (distance) => tf.mul(distance, tf.sign(distance)),
  // d² / 2 up to a distance of 1, and d - 1/2 for larger distances, as in PyTorch's HuberLoss.
  huber: (distance) => {
    const near = tf.clipByValue(distance, -1, 1);
    return tf.mul(near, tf.sub(distance, tf.div(near, 2)));
  },
};

/**
 * Outputs are float32 [batch, 1] and labels are amounts float32 [batch]. For the shapes with
 * cross-entropy, see {@link crossEntropySum}. A short batch is padded with samples of zeros, label
 * 0 and weight 0, so that shapes stay static.
 */
type LossSum = (outputs: tf.Tensor2D, labels: tf.Tensor1D, weights: tf.Tensor1D) => tf.Scalar;

/**
 * Returns the loss function `name`. Its result is the sum over samples of weight * loss. For the
 * mean, divide it by the sum of the weights of all ranks.
 */
export function lossSumFunctionOf(name: JobLossName): LossSum {
  if (name === 'cross-entropy') return crossEntropySum;
  const cost = COSTS[name];
  return (outputs, amounts, weights) =>
    tf.tidy(() => {
      const distance = tf.sub(tf.reshape(outputs, amounts.shape), amounts);
      return tf.sum<tf.Scalar>(tf.mul(cost(distance), weights));
    });
}
