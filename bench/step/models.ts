/** The models of `bench step`. */
import * as tf from '@tensorflow/tfjs';
import { buildModel } from '../../src/jobs/index.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import type { StepModel } from './args.ts';

interface BenchModel {
  /** Shape of a sample. */
  readonly inputShape: readonly [number, number, number];
  readonly variables: readonly tf.Variable[];
  readonly logits: (inputs: tf.Tensor) => tf.Tensor2D;
}

/** Shape of a handwritten digit of MNIST. */
const INPUT_SHAPE = [28, 28, 1] as const;
export const CLASSES = 10;
/**
 * The model `deep` has equal layers, all with as many inputs as units. Its input has the shape of a
 * USPS digit. Its parameters have 2 MB.
 */
const DEEP = { inputShape: [16, 16, 1], layers: 8, units: 256 } as const;

/**
 * Creates a model. `mlp` and `cnn` are the models of training runs. `deep` is large enough for
 * several buckets.
 */
export function benchModel(name: StepModel): BenchModel {
  if (name !== 'deep') {
    const data = { inputShape: INPUT_SHAPE, classes: CLASSES };
    return { inputShape: INPUT_SHAPE, ...buildModel({ ...DEFAULT_JOB, model: name }, data) };
  }
  const { inputShape, layers, units } = DEEP;
  const initializer = tf.initializers.glorotUniform({ seed: 1 });
  const model = tf.sequential({
    layers: [
      tf.layers.flatten({ inputShape: [...inputShape] }),
      ...Array.from({ length: layers }, () =>
        tf.layers.dense({ units, activation: 'relu', kernelInitializer: initializer }),
      ),
      tf.layers.dense({ units: CLASSES, kernelInitializer: initializer }),
    ],
  });
  return {
    inputShape,
    variables: model.trainableWeights.map((weight) => weight.read() as tf.Variable),
    logits: (inputs) => model.apply(inputs, { training: true }) as tf.Tensor2D,
  };
}
