/**
 * The members of a compiled `tf.LayersModel` that `distribute` uses. Some of them are not part of
 * TensorFlow.js's public types, so only this file names them.
 */
import * as tf from '@tensorflow/tfjs';
import type { ModelPass } from '../../parallel/ddp/flatten.ts';
import { UsageError } from '../../util/errors.ts';

type LossFunction = (target: tf.Tensor, output: tf.Tensor) => tf.Tensor;

/** What `fit` accepts as inputs or targets: one tensor, a list, or tensors by name. */
export type Tensors = tf.Tensor | tf.Tensor[] | { [name: string]: tf.Tensor };

export interface CompiledModel {
  readonly name: string;
  /** Losses and metrics as they were passed to `compile`. */
  readonly loss: unknown;
  readonly metrics: unknown;
  readonly inputs: readonly unknown[];
  readonly outputs: readonly unknown[];
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  readonly optimizer: tf.Optimizer;
  /** The loss of each output. */
  readonly lossFunctions: readonly LossFunction[];
  /**
   * The metrics of `compile`, each with the index of its output. With several outputs, the losses
   * of the outputs come first.
   */
  readonly metricsTensors: readonly (readonly [LossFunction, number])[];
  /** Losses and metrics of a batch in test mode; set by `makeTestFunction`. */
  readonly testFunction: (batch: tf.Tensor[]) => tf.Scalar[];
  history: tf.History;
  isTraining: boolean;
  stopTraining: boolean;
  /** The names of the loss and the metrics, as they are in logs. */
  getDedupedMetricsNames(): string[];
  /** Checks inputs and targets; returns them as lists, and one-dimensional ones as columns. */
  standardizeUserDataXY(x: Tensors, y: Tensors, checkBatchAxis: boolean): [tf.Tensor[], tf.Tensor[]];
  makeTestFunction(): void;
  /** Means of `f` over batches of the samples. */
  testLoop(f: CompiledModel['testFunction'], samples: tf.Tensor[], batchSize: number): tf.Scalar[];
  /** Penalties of regularizers. */
  calculateLosses(): tf.Scalar[];
}

const METHODS = [
  'getDedupedMetricsNames',
  'standardizeUserDataXY',
  'makeTestFunction',
  'testLoop',
  'calculateLosses',
] as const satisfies readonly (keyof CompiledModel)[];
const FIELDS = ['lossFunctions', 'metricsTensors', 'inputNames', 'outputNames'] as const;

/**
 * Returns the model on which TensorFlow.js runs `fit`: of a `tf.Sequential`, the model inside it.
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
  return core as unknown as CompiledModel;
}

/** Returns losses and metrics as texts, without the names of outputs, which may be generated. */
export function describeCompiled({ loss, metrics }: CompiledModel): { loss: string; metrics: string } {
  return { loss: textOf(loss), metrics: textOf(metrics) };
}

function textOf(given: unknown): string {
  if (typeof given === 'object' && given !== null) return Object.values(given).map(textOf).join(', ');
  return typeof given === 'function' ? 'a function' : String(given);
}

/** A batch of one rank. */
export interface Batch {
  inputs: tf.Tensor[];
  targets: tf.Tensor[];
  /** The weights of the samples, by output; `null`: all 1. */
  weights: (tf.Tensor | null)[];
  samples: number;
}

export function disposeBatch({ inputs, targets, weights }: Batch): void {
  tf.dispose([inputs, targets, weights.filter((tensor) => tensor !== null)]);
}

/** Returns the forward pass of `model.fit` for a batch: loss, penalties and metrics. */
export function trainingPass(
  model: CompiledModel,
  { inputs, targets, weights }: Batch,
): ModelPass<tf.Tensor | tf.Tensor[]> {
  const { lossFunctions, metricsTensors } = model;
  let losses: tf.Tensor[] = [];
  const loss = (outputs: tf.Tensor | tf.Tensor[]): tf.Scalar => {
    losses = [outputs].flat().map((output, i) => {
      const ofSamples = lossFunctions[i]!(targets[i]!, output);
      const weight = weights[i];
      return weight ? ofSamples.mul(weight) : ofSamples;
    });
    const total = losses.slice(1).reduce((sum, each) => sum.add(each), losses[0]!);
    return model.calculateLosses().reduce((sum, penalty) => sum.add<tf.Scalar>(penalty), total.mean<tf.Scalar>());
  };
  if (metricsTensors.length === 0) return { inputs, loss };
  const metrics = (all: tf.Tensor | tf.Tensor[]): tf.Tensor => {
    const outputs = [all].flat();
    const values = metricsTensors.map(([metric, output], i) =>
      outputs.length > 1 && i < outputs.length ? losses[i]! : metric(targets[output]!, outputs[output]!),
    );
    return tf.stack(values.map((value) => value.mean().toFloat()));
  };
  return { inputs, loss, metrics };
}
