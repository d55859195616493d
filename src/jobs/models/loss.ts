/**
 * Losses. A loss is a weighted sum over samples instead of a mean, so that the gradients of all
 * ranks can be added.
 */
import * as tf from '@tensorflow/tfjs';
import type { AmountLoss, LossName } from '../../spec/measures.ts';

/**
 * Returns the sum over samples of weight * cross-entropy, in nats. For the mean, divide it by the
 * sum of the weights of all ranks.
 *
 * A row of weight 0 with finite logits does not change the loss or any gradient. A short batch is
 * therefore padded with rows of zeros, label 0 and weight 0, so that shapes stay static.
 *
 * @param logits float32 [batch, classes]
 * @param labels int32 [batch], 0 .. classes-1
 * @param weights float32 [batch], >= 0
 */
export function lossSum(logits: tf.Tensor2D, labels: tf.Tensor1D, weights: tf.Tensor1D): tf.Scalar {
  return tf.tidy(() => {
    // On wasm, TensorFlow.js 4.22 returns integers even if float32 is requested.
    const targets = tf.cast(tf.oneHot(labels, logits.shape[1]), 'float32');
    // logSoftmax subtracts the maximum of the row first, so large logits do not overflow. On
    // WebGPU, it is also correct for more than 65 536 rows, but softmax is not.
    const chosen = tf.sum(tf.mul(tf.logSoftmax(logits), targets), 1);
    return tf.neg(tf.sum<tf.Scalar>(tf.mul(chosen, weights)));
  });
}

/** Loss functions of the difference between output and target amount. */
const COSTS: Record<AmountLoss, (distance: tf.Tensor) => tf.Tensor> = {
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

/** Like {@link lossSum}, for outputs float32 [batch, 1] and amounts float32 [batch]. */
type LossSum = (outputs: tf.Tensor2D, labels: tf.Tensor1D, weights: tf.Tensor1D) => tf.Scalar;

/**
 * Returns the loss function `name`. Its result is the sum over samples of weight * loss. For the
 * mean, divide it by the sum of the weights of all ranks.
 */
export function lossSumOf(name: LossName): LossSum {
  if (name === 'cross-entropy') return lossSum;
  const cost = COSTS[name];
  return (outputs, amounts, weights) =>
    tf.tidy(() => {
      const distance = tf.sub(tf.reshape(outputs, amounts.shape), amounts);
      return tf.sum<tf.Scalar>(tf.mul(cost(distance), weights));
    });
}
