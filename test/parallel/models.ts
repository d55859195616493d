/** Small models, and functions that DDP tests need. */
import * as tf from '@tensorflow/tfjs';

/** Dense, relu, dense; the seed determines the weights. */
export function mlp(seed: number, { units = 5, inputs = 3, outputs = 2 } = {}): tf.Sequential {
  return tf.sequential({
    layers: [
      tf.layers.dense({ ...seeded(seed), units, inputShape: [inputs], activation: 'relu' }),
      tf.layers.dense({ ...seeded(seed + 1), units: outputs }),
    ],
  });
}

/** Dense, batch normalization, dense; the normalization has buffers. */
export function normalized(seed: number, { units = 4, inputs = 3 } = {}): tf.Sequential {
  return tf.sequential({
    layers: [
      tf.layers.dense({ ...seeded(seed), units, inputShape: [inputs] }),
      tf.layers.batchNormalization({
        movingMeanInitializer: tf.initializers.constant({ value: seed }),
        momentum: 0.5,
      }),
      tf.layers.dense({ ...seeded(seed + 1), units: 1 }),
    ],
  });
}

function seeded(seed: number) {
  return { kernelInitializer: tf.initializers.glorotUniform({ seed }), biasInitializer: 'zeros' as const };
}

/** All weights, buffers too, one after the other. */
export function weightsOf(model: tf.LayersModel): number[] {
  return model.getWeights().flatMap((weight) => Array.from(weight.dataSync()));
}

/** Samples of `rank` for step `step`: float32 [count, width], the same in each call. */
export function samplesOf(rank: number, step: number, count: number, width = 3): tf.Tensor2D {
  return tf.randomNormal([count, width], 0, 1, 'float32', 1000 * step + rank + 1);
}

export function meanSquare(outputs: tf.Tensor): tf.Scalar {
  return outputs.square().mean().asScalar();
}

/** y = w x + b as two variables. */
export function line(weight: number, bias = 0): [tf.Variable, tf.Variable] {
  return [tf.variable(tf.tensor1d([weight])), tf.variable(tf.tensor1d([bias]))];
}

/** Largest difference of two lists, relative to the largest number in them. */
export function relativeDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  const scale = Math.max(...Array.from(a, Math.abs), ...Array.from(b, Math.abs));
  return Math.max(...Array.from(a, (value, i) => Math.abs(value - b[i]!))) / scale;
}
