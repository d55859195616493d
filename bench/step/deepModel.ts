/** The model of `bench step`. */
import * as tf from '@tensorflow/tfjs';

interface DeepModel {
  readonly variables: readonly tf.Variable[];
  readonly logits: (inputs: tf.Tensor) => tf.Tensor2D;
}

/** Shape of a sample, which is that of a USPS digit. */
export const INPUT_SHAPE = [16, 16, 1] as const;
export const CLASSES = 10;
/** Equal layers, all with as many inputs as units. Their parameters have 2 MB. */
const LAYERS = 8;
const UNITS = 256;

/** Creates a model that is large enough for several buckets. */
export function deepModel(): DeepModel {
  const initializer = tf.initializers.glorotUniform({ seed: 1 });
  const model = tf.sequential({
    layers: [
      tf.layers.flatten({ inputShape: [...INPUT_SHAPE] }),
      ...Array.from({ length: LAYERS }, () =>
        tf.layers.dense({ units: UNITS, activation: 'relu', kernelInitializer: initializer }),
      ),
      tf.layers.dense({ units: CLASSES, kernelInitializer: initializer }),
    ],
  });
  return {
    variables: model.trainableWeights.map((weight) => weight.read() as tf.Variable),
    logits: (inputs) => model.apply(inputs, { training: true }) as tf.Tensor2D,
  };
}
