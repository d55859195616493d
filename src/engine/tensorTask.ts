/** A user's model and tensors as a {@link Task}. */
import * as tf from '@tensorflow/tfjs';
import type { Model, Scalar } from '../parallel/flatten.ts';
import { UsageError } from '../util/errors.ts';
import { hashState } from '../util/hash.ts';
import type { Task } from './task.ts';

export interface Samples {
  /** [samples, ...inputShape] */
  xs: tf.Tensor;
  /** [samples, ...outputShape], as the loss takes it. */
  ys: tf.Tensor;
}

/** One value per sample, [batch], or their mean as a scalar. */
export type Loss = (labels: tf.Tensor, outputs: tf.Tensor) => tf.Tensor;

/**
 * Losses by TensorFlow.js's names. `categoricalCrossentropy` and `binaryCrossentropy` take a model's probabilities,
 * `softmaxCrossEntropy` its logits; labels of the categorical ones are one-hot.
 */
export const LOSSES = {
  meanSquaredError: (labels, outputs) => tf.metrics.meanSquaredError(labels, outputs),
  meanAbsoluteError: (labels, outputs) => tf.metrics.meanAbsoluteError(labels, outputs),
  binaryCrossentropy: (labels, outputs) => tf.metrics.binaryCrossentropy(labels, outputs),
  categoricalCrossentropy: (labels, outputs) => tf.metrics.categoricalCrossentropy(labels, outputs),
  softmaxCrossEntropy: (labels, outputs) => tf.neg(tf.sum(tf.mul(labels, tf.logSoftmax(outputs)), -1)),
} as const satisfies Record<string, Loss>;

/** Losses for which the largest output is an answer. */
const CLASSIFIES: readonly unknown[] = ['categoricalCrossentropy', 'softmaxCrossEntropy'];
/** Most held-out samples per forward pass. */
const EVALUATION_BATCH = 256;

export interface FitOptions {
  loss: keyof typeof LOSSES | Loss;
  /** Held out: accuracy is told for models that classify. */
  validation?: Samples;
}

/**
 * @throws UsageError where inputs and labels are not of one number, or the model has several inputs or outputs.
 */
export function createTensorTask(model: Model, train: Samples, { loss, validation }: FitOptions): Task {
  if (model.inputs.length !== 1 || model.outputs.length !== 1) {
    throw new UsageError(
      'Trainer takes models of one input and one output: train others with DistributedDataParallel.',
    );
  }
  for (const { xs, ys } of [train, ...(validation ? [validation] : [])]) {
    if (xs.shape[0] === ys.shape[0] && xs.shape[0] > 0) continue;
    throw new UsageError(`xs has ${xs.shape[0]} samples and ys ${ys.shape[0]}: give one label for each sample.`);
  }
  const lossOf: Loss = typeof loss === 'function' ? loss : LOSSES[loss];
  const tests = CLASSIFIES.includes(loss) ? validation : undefined;
  return {
    model,
    trainSamples: train.xs.shape[0],
    testSamples: tests?.xs.shape[0] ?? 0,
    testBatch: EVALUATION_BATCH,
    dataHash: () => hashEnds([train, ...(validation ? [validation] : [])]),
    async withBatch(indices, use) {
      const [inputs, labels] = gather(train, indices);
      const summed = (outputs: tf.Tensor): Scalar => {
        const values = lossOf(labels, outputs);
        return values.rank === 0 ? values.mul<Scalar>(indices.length) : values.sum<Scalar>();
      };
      try {
        return await use({ inputs, loss: summed });
      } finally {
        tf.dispose([inputs, labels]);
      }
    },
    async countCorrect(indices) {
      if (!tests || indices.length === 0) return 0;
      const right = tf.tidy(() => {
        const [inputs, labels] = gather(tests, indices);
        const outputs = model.apply(inputs, { training: false }) as tf.Tensor;
        return outputs.argMax(-1).equal(labels.argMax(-1)).sum();
      });
      try {
        return (await right.data())[0]!;
      } finally {
        right.dispose();
      }
    },
    // The model and the tensors are the user's.
    dispose: () => {},
  };
}

function gather({ xs, ys }: Samples, indices: Uint32Array): [inputs: tf.Tensor, labels: tf.Tensor] {
  return tf.tidy(() => {
    const at = tf.tensor1d(Int32Array.from(indices), 'int32');
    return [xs.gather(at), ys.gather(at)];
  });
}

/** Digest of shapes, the first sample and the last: enough to tell data sets apart. */
async function hashEnds(sets: readonly Samples[]): Promise<string> {
  const parts: ArrayBufferView[] = [];
  for (const tensor of sets.flatMap(({ xs, ys }) => [xs, ys])) {
    const ends = tf.tidy(() => tf.concat([tensor.slice([0], [1]), tensor.slice([tensor.shape[0] - 1], [1])]));
    parts.push(Int32Array.from(tensor.shape), await ends.data());
    ends.dispose();
  }
  return hashState(parts);
}
