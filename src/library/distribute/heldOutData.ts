/** Prepares the held-out samples of `fit`, `fitDataset` and `evaluate` for a rank. */
import type * as tf from '@tensorflow/tfjs';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { UsageError } from '../../util/errors.ts';
import type { SharedArguments, SampleSketches } from './agreement.ts';
import { checkDatasetIsFinite } from './arguments.ts';
import { checkWholeAtLeast } from '../../parallel/groups/checks.ts';
import type { CompiledModel, FitTensors } from './compiledModel.ts';
import { heldOutDatasetEvaluator, heldOutTensorsEvaluator, type EvaluateHeldOut } from './evaluation.ts';
import type { WaitsUntilFailure } from './waitsUntilFailure.ts';
import { checkLossesPerSample, sampleWeightsPerOutput, type SampleWeights } from './sampleWeights.ts';
import type { BatchDataset, DatasetShare } from './batchSource.ts';
import { DatasetShard, FirstElementsComparison } from './shardDataset.ts';
import { sketchOfColumn } from './sketches.ts';
import { partOfSampleSpan, InputsAndTargets, type SampleSpan } from './tensorData.ts';

/** Held-out samples, and their description, which is compared between ranks. */
export interface PreparedEvaluation {
  heldOut: EvaluateHeldOut;
  shared: SharedArguments;
  sketches?: SampleSketches | undefined;
}

export interface EvaluationContext {
  group: ProcessGroup;
  model: CompiledModel;
  /** Whether every rank has its own samples. */
  isSharded: boolean;
  waits: WaitsUntilFailure;
  /** Objects that are disposed of when the call ends. The preparation adds objects to it. */
  own: { dispose(): void }[];
}

/**
 * @param given the inputs and targets, `[x, y]`.
 * @param sampleWeight for each sample, a factor of its loss.
 */
export async function prepareTensorsEvaluation(
  place: EvaluationContext,
  given: readonly FitTensors[],
  batchSize: number,
  sampleWeight?: FitTensors,
): Promise<PreparedEvaluation> {
  const { model, own, isSharded } = place;
  const [x, y] = given;
  if (given.length !== 2 || !x || !y) {
    throw new UsageError('validationData must be an array of inputs and targets, without sample weights.');
  }
  const data = new InputsAndTargets(model, x, y);
  own.push(data);
  const texts = data.describe(isSharded);
  const weights = await sampleWeightsPerOutput(model, data.targets, { sampleWeight });
  await checkLossesPerSample(model, data, weights);
  return {
    heldOut: prepareSpanEvaluation(place, data, weights, { start: 0, end: data.size }, batchSize),
    shared: { 'x of the held-out samples': texts.x, 'y of the held-out samples': texts.y },
    sketches: await sketchesOf(place, data, weights, 'of the held-out samples'),
  };
}

/**
 * Returns the sketches of the samples if all ranks pass the same samples. Returns `undefined` if
 * each rank passes its own samples.
 *
 * @param which a text that is appended to the names of the sketches.
 */
export async function sketchesOf(
  { isSharded, group }: Pick<EvaluationContext, 'isSharded' | 'group'>,
  data: InputsAndTargets,
  weights: readonly SampleWeights[],
  which = '',
): Promise<SampleSketches | undefined> {
  if (isSharded || group.worldSize === 1) return undefined;
  const { x, y } = await data.sketch();
  const ofWeights = weights.filter((each) => each !== null).map(sketchOfColumn);
  return Object.fromEntries(
    Object.entries({ x, y, sampleWeight: ofWeights }).map(([name, sketches]) => [`${name} ${which}`.trim(), sketches]),
  );
}

/**
 * Returns the function that evaluates this rank's part of a span of samples. The part is the whole
 * span if each rank has its own samples.
 */
export function prepareSpanEvaluation(
  place: EvaluationContext,
  data: InputsAndTargets,
  weights: readonly SampleWeights[],
  span: SampleSpan,
  batchSize: number,
): EvaluateHeldOut {
  const { model, group, isSharded } = place;
  const part = isSharded ? span : partOfSampleSpan(span, group.rank, group.worldSize);
  return heldOutTensorsEvaluator(model, data, weights, part, batchSize);
}

/**
 * @param option the caller's name of the argument `batches`, for errors.
 * @param call name of the method, for errors.
 */
export function prepareDatasetEvaluation(
  place: EvaluationContext,
  dataset: BatchDataset,
  batches: number | undefined,
  option: string,
  call: string,
): PreparedEvaluation {
  const { model, group, isSharded, waits } = place;
  const { rank, worldSize } = group;
  checkDatasetIsFinite(dataset, batches, option);
  const wanted = batches === undefined ? null : checkWholeAtLeast(option, batches, 1);
  const limit = wanted === null || isSharded ? wanted : Math.ceil((wanted - rank) / worldSize);
  return {
    heldOut: heldOutDatasetEvaluator(model, datasetShareOf(dataset, place, call), limit, waits),
    shared: { [option]: wanted, 'the size of the held-out dataset': isSharded ? null : datasetSizeText(dataset) },
  };
}

/** Returns the part of a dataset that this rank uses. */
export function datasetShareOf(
  dataset: BatchDataset,
  { model, group, own, isSharded }: EvaluationContext,
  call: string,
): DatasetShare {
  if (isSharded) return { dataset, compare: () => Promise.resolve() };
  const first = new FirstElementsComparison(model, group, call);
  own.push(first);
  const whole = dataset as tf.data.Dataset<tf.TensorContainer>;
  return { dataset: new DatasetShard(whole, group, first.see), compare: () => first.compare() };
}

/** Returns the size of a dataset as text, or `null` if it is unknown. */
export function datasetSizeText({ size }: BatchDataset): string | null {
  return size === undefined || size === null || Number.isNaN(size) ? null : String(size);
}
