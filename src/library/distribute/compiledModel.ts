/**
 * The members of a compiled `tf.LayersModel` that `distribute` uses. Some of them are not part of
 * TensorFlow.js's public types, so only this file names them.
 */
import * as tf from '@tensorflow/tfjs';
import type { ModelPass } from '../../parallel/backward/flatten.ts';
import { UsageError } from '../../util/errors.ts';

export type LossFunction = (target: tf.Tensor, output: tf.Tensor) => tf.Tensor;

/** Inputs or targets as `fit` accepts them: one tensor, a list, or tensors by name. */
export type FitTensors = tf.Tensor | tf.Tensor[] | { [name: string]: tf.Tensor };

export interface CompiledModel {
  readonly name: string;
  /** Losses and metrics as they were passed to `compile`. */
  readonly loss: unknown;
  readonly metrics: unknown;
  readonly inputs: readonly { readonly shape: tf.Shape }[];
  readonly outputs: readonly unknown[];
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  readonly optimizer: tf.Optimizer;
  /** The weights that were trainable when the model was compiled. */
  readonly collectedTrainableWeights: tf.LayersModel['trainableWeights'];
  /** The loss of each output. */
  readonly lossFunctions: readonly LossFunction[];
  /**
   * The metrics of `compile`, each with the index of its output. If the model has several outputs,
   * the losses of the outputs come before the metrics.
   */
  readonly metricsTensors: readonly (readonly [LossFunction, number])[];
  history: tf.History;
  isTraining: boolean;
  stopTraining: boolean;
  /** The names of the loss and the metrics, as they are in logs. */
  getDedupedMetricsNames(): string[];
  /**
   * Checks inputs and targets. Returns both as lists of tensors. A tensor of shape [n] becomes a
   * tensor of shape [n, 1].
   */
  standardizeUserDataXY(x: FitTensors, y: FitTensors, checkBatchAxis: boolean): [tf.Tensor[], tf.Tensor[]];
  /** The forward pass. */
  apply(inputs: tf.Tensor[], options: { training: boolean }): tf.Tensor | tf.Tensor[];
  /** Penalties of regularizers. */
  calculateLosses(): tf.Scalar[];
}

const METHODS = [
  'getDedupedMetricsNames',
  'standardizeUserDataXY',
  'apply',
  'calculateLosses',
] as const satisfies readonly (keyof CompiledModel)[];
const FIELDS = [
  ...(['lossFunctions', 'metricsTensors', 'inputNames', 'outputNames'] as const),
  'collectedTrainableWeights',
] as const;

/**
 * Returns the model on which TensorFlow.js runs `fit`. For a `tf.Sequential`, it is an inner model.
 *
 * @throws UsageError if the model is not compiled, or TensorFlow.js lacks a member.
 */
export function compiledModelOf(model: tf.LayersModel): CompiledModel {
  const core: unknown = model instanceof tf.Sequential ? Reflect.get(model, 'model') : model;
  if (!(core instanceof tf.LayersModel) || !core.optimizer) {
    const name =
      model instanceof tf.LayersModel ? `The model "${model.name}" is not compiled` : 'This is not a tf.LayersModel';
    throw new UsageError(`${name}. Call model.compile({ optimizer, loss, metrics }) before distribute.`);
  }
  const missing = [
    ...METHODS.filter((member) => typeof Reflect.get(core, member) !== 'function'),
    ...FIELDS.filter((member) => !Array.isArray(Reflect.get(core, member))),
  ];
  if (missing.length > 0) {
    throw new UsageError(
      `distribute does not support TensorFlow.js ${tf.version.tfjs}, whose LayersModel has no ${missing.join(', ')}. Use ` +
        'version 4, or train with DistributedDataParallel.',
    );
  }
  const compiled = core as unknown as CompiledModel;
  const unfrozen = core.trainableWeights.find((weight) => !compiled.collectedTrainableWeights.includes(weight));
  if (!unfrozen) return compiled;
  throw new UsageError(
    `The weight "${unfrozen.name}" was frozen when the model "${model.name}" was compiled, so model.fit would not train it. Call ` +
      'model.compile after setting `trainable`, before distribute.',
  );
}

/**
 * Returns losses and metrics as texts. Names of outputs are left out, because they may be
 * generated.
 */
export function describeLossAndMetrics({ loss, metrics }: CompiledModel): { loss: string; metrics: string } {
  return { loss: textOf(loss), metrics: textOf(metrics) };
}

/**
 * Returns the settings of a model's layers as texts. The keys are the places of the layers. Names,
 * seeds and initializers of layers are left out, because they may differ between ranks: all ranks
 * receive rank 0's weights.
 */
export function describeLayers({ layers }: tf.LayersModel, place = 'layer'): Record<string, string> {
  const texts = layers.map((layer, i) => {
    const at = `${place} ${i}`;
    if (layer instanceof tf.LayersModel) return describeLayers(layer, `${at}, layer`);
    return { [at]: `${layer.getClassName()} ${JSON.stringify(layer.getConfig(), withoutOwn)}` };
  });
  return Object.assign({}, ...texts) as Record<string, string>;
}

function withoutOwn(key: string, value: unknown): unknown {
  return value === null || OWN_SETTING.test(key) ? undefined : value;
}

/** Names of settings that may differ between ranks. */
const OWN_SETTING = /^(name|seed|weights)$|initializer$/i;

function textOf(given: unknown): string {
  if (typeof given === 'object' && given !== null) return Object.values(given).map(textOf).join(', ');
  return typeof given === 'function' ? 'a function' : String(given);
}

/** A batch of one rank. */
export interface RankBatch {
  inputs: tf.Tensor[];
  targets: tf.Tensor[];
  /** For each output, the weights of the samples. `null` means that all weights are 1. */
  weights: (tf.Tensor | null)[];
  samples: number;
}

export function disposeBatch({ inputs, targets, weights }: RankBatch): void {
  tf.dispose([inputs, targets, weights.filter((tensor) => tensor !== null)]);
}

/** Number of values that {@link createTrainingPass} averages with the loss. */
export function measuredValueCount({ metricsTensors }: CompiledModel): number {
  return metricsTensors.length + 1;
}

/**
 * Returns the forward pass of `model.fit` for a batch: loss, penalties and metrics. The last metric
 * says whether training ends.
 */
export function createTrainingPass(model: CompiledModel, batch: RankBatch): ModelPass<tf.Tensor | tf.Tensor[]> {
  let losses: tf.Tensor[] = [];
  const loss = (outputs: tf.Tensor | tf.Tensor[]): tf.Scalar => {
    losses = lossesOf(model, batch, [outputs].flat());
    return [...losses, ...model.calculateLosses()].reduce((sum, each) => sum.add(each)).asScalar();
  };
  const metrics = (outputs: tf.Tensor | tf.Tensor[]): tf.Tensor =>
    tf.stack([...metricsOf(model, batch, [outputs].flat(), losses), tf.scalar(Number(model.stopTraining))]);
  return { inputs: batch.inputs, loss, metrics };
}

/** Returns losses and metrics of a batch in the order of `model.evaluate`. Use it in a tidy. */
export function evaluateTestBatch(model: CompiledModel, batch: RankBatch): tf.Tensor1D {
  const outputs = [model.apply(batch.inputs, { training: false })].flat();
  const losses = lossesOf(model, batch, outputs);
  // As in TensorFlow.js, `sums[i]` is the sum of the losses of outputs 0 to i. So the last element
  // of `sums` is the loss of all outputs together.
  const sums = losses.map((_, i) => losses.slice(0, i + 1).reduce((sum, each) => sum.add(each)));
  return tf.stack([...sums, ...metricsOf(model, batch, outputs, losses)]) as tf.Tensor1D;
}

/** For each output, returns the mean loss over the samples. */
function lossesOf(
  { lossFunctions }: CompiledModel,
  { targets, weights }: RankBatch,
  outputs: tf.Tensor[],
): tf.Tensor[] {
  return outputs.map((output, i) => {
    const [lossOf, weight] = [lossFunctions[i]!, weights[i]];
    if (!weight) return lossOf(targets[i]!, output).mean().toFloat();
    const losses = lossesOfSamples(lossOf, targets[i]!, output);
    return losses.mul(weight.reshape([-1, ...losses.shape.slice(1).map(() => 1)])).mean();
  });
}

function metricsOf(
  { metricsTensors }: CompiledModel,
  { targets }: RankBatch,
  outputs: tf.Tensor[],
  losses: tf.Tensor[],
): tf.Tensor[] {
  return metricsTensors.map(([metric, output], i) =>
    outputs.length > 1 && i < outputs.length ? losses[i]! : metric(targets[output]!, outputs[output]!).mean().toFloat(),
  );
}

/**
 * Returns one or several losses for each sample: float32 [batch, ...]. If samples are sequences,
 * for example, a sample may have a loss for each element of its sequence. A loss function that
 * returns the mean of all samples is called for each sample.
 */
export function lossesOfSamples(lossOf: LossFunction, target: tf.Tensor, output: tf.Tensor): tf.Tensor {
  const losses = lossOf(target, output);
  const samples = output.shape[0];
  if (losses.rank > 0 && losses.shape[0] === samples) return losses;
  return tf.stack(Array.from({ length: samples }, (_, i) => lossOf(target.slice(i, 1), output.slice(i, 1)).mean()));
}
