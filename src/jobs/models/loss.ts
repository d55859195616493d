/** Losses as weighted sums over samples, so that gradients of ranks can be added. */
import * as tf from '@tensorflow/tfjs';
import type { AmountLoss, LossName } from '../../spec/measures.ts';

/**
 * Sum over samples of weight * cross-entropy, in nats. Divide by the sum of weights (of all ranks)
 * for the mean.
 *
 * A row of weight 0 adds nothing to the loss or to any gradient if its logits are finite. A short
 * batch is therefore padded with zero inputs, label 0 and weight 0, which keeps shapes static.
 *
 * @param logits float32 [batch, classes]
 * @param labels int32 [batch], 0 .. classes-1
 * @param weights float32 [batch], >= 0
 */
export function lossSum(logits: tf.Tensor2D, labels: tf.Tensor1D, weights: tf.Tensor1D): tf.Scalar {
  return tf.tidy(() => {
    // On wasm, TensorFlow.js 4.22 returns integers even if float32 is requested.
    const targets = tf.cast(tf.oneHot(labels, logits.shape[1]), 'float32');
    // logSoftmax subtracts the row's maximum first, so large logits do not overflow. It is also
    // correct above 65 536 rows, where softmax on WebGPU is not.
    const chosen = tf.sum(tf.mul(tf.logSoftmax(logits), targets), 1);
    return tf.neg(tf.sum<tf.Scalar>(tf.mul(chosen, weights)));
  });
}

/** The loss of a distance from the target amount. */
const COSTS: Record<AmountLoss, (distance: tf.Tensor) => tf.Tensor> = {
  'mean-squared-error': (distance) => tf.mul(distance, distance),
  // The gradient of TensorFlow.js's abs is -1 at distance 0; this one is 0 there, as in torch's
  // L1Loss.
  'mean-absolute-error': (distance) => tf.mul(distance, tf.sign(distance)),
  // d² / 2 up to a distance of 1, d - 1/2 beyond: torch's HuberLoss.
  huber: (distance) => {
    const near = tf.clipByValue(distance, -1, 1);
    return tf.mul(near, tf.sub(distance, tf.div(near, 2)));
  },
};

/** Like {@link lossSum}, for outputs float32 [batch, 1] and amounts float32 [batch]. */
type LossSum = (outputs: tf.Tensor2D, labels: tf.Tensor1D, weights: tf.Tensor1D) => tf.Scalar;

/**
 * The loss function `name`: a sum over samples of weight * loss. Divide by the sum of weights (of
 * all ranks) for the mean.
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
