/**
 * A linear layer (dense layer) with what often follows it: activation, dropout and a residual
 * connection.
 */
import * as tf from '@tensorflow/tfjs';

/** `gelu`: the approximation by tanh, as in GPT-2. */
export type Activation = 'relu' | 'gelu';

export interface LinearOptions {
  /** float32 [out] */
  bias?: tf.Tensor;
  activation?: Activation;
  /**
   * Dropout mask, float32 [batch, 1, out]: one factor for each channel of each sample. `x` is then
   * [batch, positions, in].
   */
  mask?: tf.Tensor;
  /** float32, the shape of the result. */
  residual?: tf.Tensor;
  /** Whether `weights` is [out, in]. */
  transposeWeights?: boolean;
}

/**
 * Computes `activation(x . weights + bias) * mask + residual`.
 *
 * @param x float32 [..., in]
 * @param weights float32 [in, out]
 * @returns float32 [..., out]
 */
export function linear(x: tf.Tensor, weights: tf.Tensor, options: LinearOptions = {}): tf.Tensor {
  const { bias, activation, mask, residual, transposeWeights = false } = options;
  return tf.tidy(() => {
    const rows = x.reshape([-1, x.shape.at(-1)!]);
    const product = tf.matMul(rows, weights, false, transposeWeights);
    let y: tf.Tensor = product.reshape([...x.shape.slice(0, -1), product.shape[1]!]);
    if (bias) y = y.add(bias);
    if (activation) y = activate(y, activation);
    if (mask) y = y.mul(mask);
    return residual ? y.add(residual) : y;
  });
}

function activate(x: tf.Tensor, activation: Activation): tf.Tensor {
  if (activation === 'relu') return tf.relu(x);
  // Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.
  const tanh = tf.tanh(x.add(x.mul(x).mul(x).mul(0.044715)).mul(Math.sqrt(2 / Math.PI)));
  return x.mul(0.5).mul(tanh.add(1));
}
