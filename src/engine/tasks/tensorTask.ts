/** Turns a user's model and tensors into a {@link TrainingTask}. */
import * as tf from '@tensorflow/tfjs';
import type { Model, Scalar } from '../../parallel/backward/flatten.ts';
import { confusionClassNames } from '../../protocol/confusion.ts';
import { UsageError } from '../../util/errors.ts';
import { hashOfArrays } from '../../util/hash.ts';
import type { TrainingTask } from './task.ts';

export interface Samples {
  /** [samples, ...inputShape] */
  xs: tf.Tensor;
  /** [samples, ...outputShape] for a built-in loss. A custom loss may use any shape. */
  ys: tf.Tensor;
}

/**
 * A custom loss. It may return one loss per sample, as [batch]. It may return several losses per
 * sample, as [batch, ...]; then the mean of a sample's losses is used. Or it may return a scalar,
 * the mean over all samples. Labels have the same shape as in {@link Samples}, except for the first
 * dimension.
 */
export type Loss = (labels: tf.Tensor, outputs: tf.Tensor) => tf.Tensor;

/**
 * Built-in losses, with the names of TensorFlow.js. `categoricalCrossentropy` and
 * `binaryCrossentropy` expect probabilities from the model; `softmaxCrossEntropy` expects logits.
 * `categoricalCrossentropy` and `softmaxCrossEntropy` expect one-hot labels. Labels have the same
 * shape as the outputs. If outputs are [samples, 1], labels may also be [samples].
 */
const LOSSES = {
  meanSquaredError: (labels, outputs) => tf.metrics.meanSquaredError(labels, outputs),
  meanAbsoluteError: (labels, outputs) => tf.metrics.meanAbsoluteError(labels, outputs),
  binaryCrossentropy: (labels, outputs) => tf.metrics.binaryCrossentropy(labels, outputs),
  categoricalCrossentropy: (labels, outputs) => tf.metrics.categoricalCrossentropy(labels, outputs),
  softmaxCrossEntropy: (labels, outputs) => tf.neg(tf.sum(tf.mul(labels, tf.logSoftmax(outputs)), -1)),
} as const satisfies Record<string, Loss>;

export type LossName = keyof typeof LOSSES;

/** Losses with which a model classifies: the largest output is the predicted class. */
const CLASSIFIES: readonly unknown[] = ['categoricalCrossentropy', 'softmaxCrossEntropy'];
/** The largest number of held-out samples in one forward pass. */
const EVALUATION_BATCH = 256;

export interface FitOptions {
  loss: LossName | Loss;
  /**
   * Held-out samples. Their loss is reported. If the loss classifies, their accuracy is reported as
   * well.
   */
  validation?: Samples;
  /**
   * Whether every tab has samples of its own. If so, every tab must have at least one sample, and
   * samples of all tabs must have the same shape. A step then uses the same fraction of every
   * tab's samples. By default all tabs have the same samples, and each tab computes its part of a
   * step.
   */
  shard?: boolean;
}

/**
 * Creates a task. The layers' regularizers are added to the training loss, as in TensorFlow.js's
 * `model.fit`. They are not added to held-out losses.
 *
 * @throws UsageError if inputs and labels differ in number, if labels do not have the outputs'
 *   shape, if there is no loss of that name, or if the model has several inputs or outputs.
 */
export function createTensorTask(
  model: Model,
  train: Samples,
  { loss, validation, shard = false }: FitOptions,
): TrainingTask {
  if (model.inputs.length !== 1 || model.outputs.length !== 1) {
    throw new UsageError(
      'Trainer needs a model with one input and one output. Train other models with DistributedDataParallel.',
    );
  }
  const sets = validation ? [train, validation] : [train];
  const lossOf = lossNamed(loss);
  for (const { xs, ys } of sets) {
    if (xs.shape[0] !== ys.shape[0] || xs.shape[0] === 0) {
      throw new UsageError(
        `xs has ${xs.shape[0]} samples, but ys has ${ys.shape[0]} labels. Pass one label for each sample.`,
      );
    }
    if (typeof loss !== 'function') checkLabels(ys, model.outputs[0]!.shape);
  }
  // A Sequential model collects its layers' regularizers when it is built. A model with
  // SyncBatchNormalization is computed in stages, which does not build it.
  if (!model.built) model.build(model.inputs[0]!.shape);
  const classifies = CLASSIFIES.includes(loss);
  const { shape } = model.outputs[0]!;
  // A sample with several outputs, such as a sequence, has no single class.
  const classes = classifies && shape.length === 2 ? confusionClassNames(shape[1]!) : undefined;
  return {
    model,
    trainSamples: train.xs.shape[0],
    testSamples: validation?.xs.shape[0] ?? 0,
    testBatch: EVALUATION_BATCH,
    classifies,
    classes,
    isShard: shard,
    dataHash: () => (shard ? Promise.resolve(hashShapes(train)) : hashEnds(sets)),
    dataAdvice: shard
      ? 'give every tab samples of the same shapes'
      : 'give every tab the same samples, in the same order',
    async withBatch(indices, use) {
      const [inputs, labels] = gather(train, indices);
      const summed = (outputs: tf.Tensor): Scalar => {
        const data = sumOverSamples(lossOf(labels, outputs), indices.length);
        // The losses are added one at a time, because WebGPU's addN needs a buffer for each loss,
        // and the number of buffers is limited.
        return model.calculateLosses().reduce((sum, value) => sum.add(value.mul<Scalar>(indices.length)), data);
      };
      try {
        return await use({ inputs, loss: summed });
      } finally {
        tf.dispose([inputs, labels]);
      }
    },
    async evaluate(indices) {
      if (!validation || indices.length === 0) return { lossSum: 0, correct: 0 };
      const sums = tf.tidy(() => {
        const [inputs, labels] = gather(validation, indices);
        const outputs = model.apply(inputs, { training: false }) as tf.Tensor;
        const isRight = (): tf.Tensor => outputs.argMax(-1).equal(labels.argMax(-1)).cast('float32');
        const both = tf.stack([
          sumOverSamples(lossOf(labels, outputs), indices.length),
          classifies ? sumOverSamples(isRight(), indices.length) : tf.scalar(0),
        ]);
        return classes ? tf.concat([both, countConfusion(labels, outputs, classes.length)]) : both;
      });
      try {
        const [lossSum, correct, ...confusion] = await sums.data();
        return { lossSum: lossSum!, correct: correct!, confusion };
      } finally {
        sums.dispose();
      }
    },
    // Does nothing, because the model and the tensors belong to the user.
    dispose: () => {},
  };
}

/**
 * Returns the built-in loss with the name `loss`. If `loss` is a function, returns it unchanged.
 *
 * @throws UsageError if there is no loss with this name.
 */
function lossNamed(loss: LossName | Loss): Loss {
  if (typeof loss === 'function') return loss;
  if (!Object.hasOwn(LOSSES, loss)) {
    throw new UsageError(
      `There is no loss "${loss}". Pass one of these names: ${Object.keys(LOSSES).join(', ')}. Or pass a function of labels and outputs.`,
    );
  }
  const named: Loss = LOSSES[loss];
  return (labels, outputs) => {
    checkLabels(labels, outputs.shape);
    // Without the reshape, labels [n] and outputs [n, 1] would be broadcast to [n, n].
    return named(labels.reshape(outputs.shape), outputs);
  };
}

/**
 * @param outputs the shape of the outputs. A dimension is `null` if it is not known yet.
 * @throws UsageError if the labels do not have the shape of the outputs.
 */
function checkLabels(labels: tf.Tensor, outputs: readonly (number | null)[]): void {
  const { shape } = labels;
  // As in model.fit, [n] is treated as [n, 1].
  const sides = shape.length === 1 ? [...shape, 1] : shape;
  if (sides.length === outputs.length && outputs.every((side, i) => side === null || side === sides[i])) return;
  throw new UsageError(
    `The model's outputs are [${outputs.map((side) => side ?? '*').join(', ')}], but the labels are [${shape.join(', ')}]. ` +
      'Pass labels with the same shape as the outputs. Classes must be one-hot.',
  );
}

/**
 * Returns the summed loss.
 *
 * @param values either the losses as [samples, ...], where several losses of a sample are averaged,
 *   or a scalar: the mean over all samples.
 * @throws UsageError if there is not one loss for each sample.
 */
function sumOverSamples(values: tf.Tensor, samples: number): Scalar {
  if (values.rank === 0) return values.mul<Scalar>(samples);
  if (values.shape[0] !== samples) {
    throw new UsageError(
      `The loss of ${samples} samples has shape [${values.shape.join(', ')}]. Return one value for each sample, or the mean over all samples.`,
    );
  }
  return values.rank === 1 ? values.sum<Scalar>() : values.reshape([samples, -1]).mean(1).sum<Scalar>();
}

/**
 * Counts, for each class, how many of its samples are classified as each class: float32 [classes *
 * classes]. Counts are exact below 2 ** 24 samples.
 */
function countConfusion(labels: tf.Tensor, outputs: tf.Tensor, classes: number): tf.Tensor {
  // The cast is needed because on wasm `oneHot` of TensorFlow.js 4.22 returns integers, even if
  // float32 is requested.
  const chosen = (values: tf.Tensor): tf.Tensor => tf.oneHot(values.argMax(-1), classes).cast('float32');
  return tf.matMul(chosen(labels), chosen(outputs), true).flatten();
}

function gather({ xs, ys }: Samples, indices: Uint32Array): [inputs: tf.Tensor, labels: tf.Tensor] {
  return tf.tidy(() => {
    const at = tf.tensor1d(Int32Array.from(indices), 'int32');
    return [xs.gather(at), ys.gather(at)];
  });
}

/** Returns a hash of the shapes. It is used if every tab has samples of its own. */
function hashShapes({ xs, ys }: Samples): string {
  const shapes = [xs, ys].map(({ shape }) => shape.slice(1));
  return hashOfArrays([new TextEncoder().encode(JSON.stringify(shapes))]);
}

/**
 * Returns a hash of the shapes and of the first and the last sample. That is enough to distinguish
 * data sets.
 */
async function hashEnds(sets: readonly Samples[]): Promise<string> {
  const parts: ArrayBufferView[] = [];
  for (const tensor of sets.flatMap(({ xs, ys }) => [xs, ys])) {
    const ends = tf.tidy(() => tf.concat([tensor.slice([0], [1]), tensor.slice([tensor.shape[0] - 1], [1])]));
    parts.push(Int32Array.from(tensor.shape), await ends.data());
    ends.dispose();
  }
  return hashOfArrays(parts);
}
