/** Models to take steps with. */
import * as tf from '@tensorflow/tfjs';
import { buildModel } from '../../src/jobs/index.ts';
import { DEFAULT_JOB } from '../../src/protocol/job.ts';
import type { StepModel } from './args.ts';

export interface BenchModel {
  readonly variables: readonly tf.Variable[];
  readonly logits: (inputs: tf.Tensor) => tf.Tensor2D;
}

/** Of a handwritten digit. */
export const INPUT_SHAPE = [28, 28, 1] as const;
export const CLASSES = 10;
/** Hidden units of `deep`, by layer: 1 MB of parameters, three quarters of them where back-propagation comes first. */
const DEEP_UNITS = [64, 256, 256, 256, 256] as const;

/** `mlp` and `cnn` are those of a training run; `deep` is large enough to be cut into buckets. */
export function benchModel(name: StepModel): BenchModel {
  if (name !== 'deep')
    return buildModel({ ...DEFAULT_JOB, model: name }, { inputShape: INPUT_SHAPE, classes: CLASSES });
  const initializer = tf.initializers.glorotUniform({ seed: 1 });
  const model = tf.sequential({
    layers: [
      tf.layers.flatten({ inputShape: [...INPUT_SHAPE] }),
      ...DEEP_UNITS.map((units) => tf.layers.dense({ units, activation: 'relu', kernelInitializer: initializer })),
      tf.layers.dense({ units: CLASSES, kernelInitializer: initializer }),
    ],
  });
  return {
    variables: model.trainableWeights.map((weight) => weight.read() as tf.Variable),
    logits: (inputs) => model.apply(inputs, { training: true }) as tf.Tensor2D,
  };
}
