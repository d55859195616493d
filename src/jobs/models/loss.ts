/**
 * Losses as sums of weighted samples, so that gradients of ranks can be added, and what is right as
 * a count.
 */
import * as tf from '@tensorflow/tfjs';
import type { AmountLoss, LossName } from '../../spec/measures.ts';

/**
 * Sum over samples of weight * cross-entropy, in nats: divide by the sum of weights (of all ranks)
 * for the mean.
 *
 * A row of weight 0 adds nothing to the loss or to any gradient as long as its logits are finite,
 * so a short batch is padded with zero inputs, label 0 and weight 0 to keep shapes static.
 *
 * @param logits float32 [batch, classes]
 * @param labels int32 [batch], 0 .. classes-1
 * @param weights float32 [batch], >= 0
 */
export function lossSum(logits: tf.Tensor2D, labels: tf.Tensor1D, weights: tf.Tensor1D): tf.Scalar {
  return tf.tidy(() => {
    // Asked for float32, TensorFlow.js 4.22 writes integers all the same on wasm.
    const targets = tf.cast(tf.oneHot(labels, logits.shape[1]), 'float32');
    // logSoftmax subtracts the row's maximum first, so large logits do not overflow. It is also
    // right above 65 536 rows, where softmax on WebGPU is not.
    const chosen = tf.sum(tf.mul(tf.logSoftmax(logits), targets), 1);
    return tf.neg(tf.sum<tf.Scalar>(tf.mul(chosen, weights)));
  });
}

/** What a distance from the amount to predict costs. */
const COSTS: Record<AmountLoss, (distance: tf.Tensor) => tf.Tensor> = {
  'mean-squared-error': (distance) => tf.mul(distance, distance),
  // The gradient of TensorFlow.js's abs is -1 where there is no distance; this has 0 there, as
  // torch's L1Loss.
  'mean-absolute-error': (distance) => tf.mul(distance, tf.sign(distance)),
  // Half the square up to 1, and the distance less a half beyond: torch's HuberLoss.
  huber: (distance) => {
    const near = tf.clipByValue(distance, -1, 1);
    return tf.mul(near, tf.sub(distance, tf.div(near, 2)));
  },
};

/** As {@link lossSum}, of outputs float32 [batch, 1] and amounts float32 [batch]. */
type LossSum = (outputs: tf.Tensor2D, labels: tf.Tensor1D, weights: tf.Tensor1D) => tf.Scalar;

/**
 * The loss of that name: a sum over samples of weight * loss, to be divided by the sum of weights
 * (of all ranks) for the mean.
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
