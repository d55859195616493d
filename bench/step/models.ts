/** Models to take steps with. */
import * as tf from '@tensorflow/tfjs';
import { buildModel } from '../../src/jobs/index.ts';
import type { StepModel } from './args.ts';

export interface BenchModel {
  readonly variables: readonly tf.Variable[];
  logits(inputs: tf.Tensor): tf.Tensor2D;
}

/** Of a handwritten digit. */
export const INPUT_SHAPE = [28, 28, 1] as const;
export const CLASSES = 10;
/** Filters and hidden units of `deep`: 108 thousand parameters, nine tenths of them in the layer that is differentiated first. */
const DEEP = { filters: [16, 16], hidden: 128 } as const;
const KERNEL = 5;

/** `mlp` and `cnn` are those of a training run; `deep` has its work in convolutions and its parameters behind them, as VGG has. */
export function benchModel(name: StepModel): BenchModel {
  if (name !== 'deep') return buildModel({ model: name, seed: 1 }, { inputShape: INPUT_SHAPE, classes: CLASSES });
  const convolution = { kernelSize: KERNEL, strides: 2, padding: 'same', activation: 'relu' } as const;
  const initializer = tf.initializers.glorotUniform({ seed: 1 });
  const [first, ...others] = DEEP.filters;
  const model = tf.sequential({
    layers: [
      tf.layers.conv2d({
        ...convolution,
        filters: first,
        kernelInitializer: initializer,
        inputShape: [...INPUT_SHAPE],
      }),
      ...others.map((filters) => {
        return tf.layers.conv2d({ ...convolution, filters, kernelInitializer: initializer });
      }),
      tf.layers.flatten(),
      tf.layers.dense({ units: DEEP.hidden, activation: 'relu', kernelInitializer: initializer }),
      tf.layers.dense({ units: CLASSES, kernelInitializer: initializer }),
    ],
  });
  return {
    variables: model.trainableWeights.map((weight) => weight.read() as tf.Variable),
    logits: (inputs) => model.apply(inputs, { training: true }) as tf.Tensor2D,
  };
}
