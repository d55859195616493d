/** Weights of samples: `sampleWeight` and `classWeight` of `fit`. */
import * as tf from '@tensorflow/tfjs';
import { UsageError } from '../../util/errors.ts';
import { type CompiledModel, type LossFunction, type FitTensors } from './compiledModel.ts';

export type ClassWeights = tf.ModelFitArgs['classWeight'];

/** For one output, the weights of all samples. `null` means that all weights are 1. */
export type SampleWeights = Float32Array | null;

interface Samples {
  inputs: readonly tf.Tensor[];
  targets: readonly tf.Tensor[];
}

export interface SampleWeightArgs {
  classWeight?: ClassWeights | undefined;
  sampleWeight?: FitTensors | undefined;
}

/**
 * Returns the weights of the samples for each output: class weight times sample weight.
 *
 * @param targets needed for class weights: one-hot, or one class index per sample.
 * @throws (rejects) UsageError for weights that do not fit the targets.
 */
export async function sampleWeightsPerOutput(
  { outputNames }: Pick<CompiledModel, 'outputNames'>,
  targets: readonly tf.Tensor[],
  { classWeight, sampleWeight }: SampleWeightArgs,
): Promise<SampleWeights[]> {
  const byClass = byOutput(classWeight, outputNames, 'classWeight', isClassWeight);
  const bySample = byOutput(sampleWeight, outputNames, 'sampleWeight', (value) => value instanceof tf.Tensor);
  const all: SampleWeights[] = [];
  for (const [i, target] of targets.entries()) {
    const ofClasses = byClass[i] ? await classWeightsOf(target, byClass[i]) : null;
    const ofSamples = bySample[i] ? await sampleWeightsOf(target, bySample[i]) : null;
    all.push(ofClasses && ofSamples ? ofClasses.map((weight, j) => weight * ofSamples[j]!) : (ofClasses ?? ofSamples));
  }
  return all;
}

/**
 * Returns the value that an option has for each output. As in TensorFlow.js, the option may be an
 * array or an object by output name. If the model has one output, it may also be a single value.
 */
function byOutput<T extends object>(
  given: T | readonly T[] | Readonly<Record<string, T>> | undefined | null,
  outputs: readonly string[],
  option: string,
  isValue: (value: unknown) => value is T,
): (T | null)[] {
  if (given === undefined || given === null) return outputs.map(() => null);
  if (Array.isArray(given)) {
    const list: readonly T[] = given;
    if (list.length === outputs.length) return [...list];
    throw new UsageError(`${option} has ${list.length} entries, but the model has ${outputs.length} output(s).`);
  }
  const named = given as Readonly<Record<string, T>>;
  if (!isValue(given) || outputs.some((name) => isValue(named[name])))
    return outputs.map((name) => named[name] ?? null);
  if (outputs.length === 1) return [given];
  throw new UsageError(
    `The model has the outputs ${outputs.join(', ')}. Pass ${option} as an array with an entry for each, or as an object by output name.`,
  );
}

type ClassWeight = Readonly<Record<number, number>>;

function isClassWeight(value: unknown): value is ClassWeight {
  return (
    typeof value === 'object' && value !== null && Object.values(value).every((weight) => typeof weight === 'number')
  );
}

async function classWeightsOf(target: tf.Tensor, classWeight: ClassWeight): Promise<Float32Array> {
  if (target.rank !== 2) {
    throw new UsageError(
      `classWeight needs targets with two dimensions; these have the shape [${target.shape.join(', ')}].`,
    );
  }
  const classes = tf.tidy(() => (target.shape[1]! > 1 ? target.argMax(1) : target.flatten()));
  const indices = await classes.data().finally(() => classes.dispose());
  return Float32Array.from(indices, (index) => {
    const weight = classWeight[index];
    if (weight !== undefined) return weight;
    throw new UsageError(`classWeight has no weight for class ${index}, which the targets contain.`);
  });
}

async function sampleWeightsOf({ shape }: tf.Tensor, weight: tf.Tensor): Promise<Float32Array> {
  if (weight.size !== shape[0]) {
    throw new UsageError(
      `sampleWeight has ${weight.size} value(s) for ${shape[0]} sample(s). Pass one for each sample.`,
    );
  }
  return Float32Array.from(await weight.data());
}

/** Number of samples whose losses are compared. */
const CHECKED_SAMPLES = 8;

/**
 * Losses are regarded as equal if their relative difference is at most this number. Rounding causes
 * smaller differences.
 */
const ROUNDING = 1e-3;

/**
 * Compares the losses of some samples together with the loss of each sample alone. A loss function
 * must return a loss for each sample, or the mean of these losses. If a loss function of the
 * program returns anything else, this is reported, because each rank computes the loss from its
 * part of a batch only.
 *
 * @param isShared whether several ranks share batches.
 * @throws (rejects) UsageError if such a loss function belongs to an output with weights.
 */
export async function checkLossesPerSample(
  model: CompiledModel,
  samples: Samples,
  weights: readonly SampleWeights[],
  isShared = false,
): Promise<void> {
  const size = samples.inputs[0]!.shape[0];
  // A model with a fixed batch size cannot compute the few samples of this check.
  const isReported = isShared && model.inputs.every(({ shape }) => shape[0] === null);
  const isChecked = model.lossFunctions.map((lossOf, i) => weights[i] || (isReported && isOwn(model, lossOf)));
  if (size === 0 || !isChecked.some(Boolean)) return;
  const count = Math.min(size, CHECKED_SAMPLES);
  const rows = tf.tensor1d(
    Array.from({ length: count }, (_, i) => Math.floor((i * size) / count)),
    'int32',
  );
  const [inputs, targets] = [samples.inputs, samples.targets].map((all) => all.map((each) => each.gather(rows)));
  const outputs = [tf.tidy(() => model.apply(inputs!, { training: false }))].flat();
  try {
    for (const [i, lossOf] of model.lossFunctions.entries()) {
      if (!isChecked[i]) continue;
      const check = isOfSamples(lossOf, targets![i]!, outputs[i]!);
      // For a single sample, the loss function may throw. Without weights, this is only a reason
      // for a warning.
      if (await (weights[i] ? check : check.catch(() => false))) continue;
      if (!weights[i]) {
        console.warn(
          `The loss of ${model.outputNames[i]} is not a mean over samples. Each rank computes it from its part of a batch. The model ` +
            "learns the mean of the ranks' losses, which is not the loss of the whole batch. Return losses of the shape [batch] or their mean.",
        );
        continue;
      }
      throw new UsageError(
        `The loss of ${model.outputNames[i]} cannot be weighted by sampleWeight or classWeight: for a batch, it returns ` +
          'neither one value for each sample nor the mean over the samples. Return losses of the shape [batch].',
      );
    }
  } finally {
    tf.dispose([rows, inputs!, targets!, outputs]);
  }
}

/** Whether `compile` received the loss function itself, not only its name. */
function isOwn({ loss }: CompiledModel, lossOf: LossFunction): boolean {
  return typeof loss === 'object' && loss !== null ? Object.values(loss).includes(lossOf) : loss === lossOf;
}

async function isOfSamples(lossOf: LossFunction, target: tf.Tensor, output: tf.Tensor): Promise<boolean> {
  const [together, alone] = tf.tidy(() => {
    const losses = lossOf(target, output);
    const count = output.shape[0];
    const hasEach = losses.shape[0] === count;
    const each = Array.from({ length: count }, (_, i) => lossOf(target.slice(i, 1), output.slice(i, 1)).mean());
    const expected = tf.stack(each);
    return [
      (hasEach ? losses.reshape([count, -1]).mean(1) : losses).flatten(),
      hasEach ? expected : expected.mean().flatten(),
    ];
  }) as [tf.Tensor1D, tf.Tensor1D];
  const [actual, expected] = await Promise.all([together.data(), alone.data()]);
  tf.dispose([together, alone]);
  return (
    actual.length === expected.length &&
    actual.every((value, i) => !(Math.abs(value - expected[i]!) > ROUNDING * (Math.abs(expected[i]!) + ROUNDING)))
  );
}
