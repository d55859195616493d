/** Prepares the held-out samples of `fit`, `fitDataset` and `evaluate` for a rank. */
import type * as tf from '@tensorflow/tfjs';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { UsageError } from '../../util/errors.ts';
import type { Shared, Sketches } from './agreement.ts';
import { checkEnds, checkWhole } from './arguments.ts';
import type { CompiledModel, Tensors } from './compiledModel.ts';
import { heldOutDataset, heldOutTensors, type HeldOut } from './evaluation.ts';
import type { PageWaits } from './pageWaits.ts';
import { checkLosses, weightsOf, type Weights } from './sampleWeights.ts';
import type { BatchDataset, Share } from './batchSource.ts';
import { DatasetShard, FirstElements } from './shardDataset.ts';
import { sketchOfColumn } from './sketches.ts';
import { partOf, TensorData, type Span } from './tensorData.ts';

/** Held-out samples, and their description, which is compared between ranks. */
export interface Prepared {
  heldOut: HeldOut;
  shared: Shared;
  sketches?: Sketches | undefined;
}

export interface EvaluationContext {
  group: ProcessGroup;
  model: CompiledModel;
  /** Whether every rank has its own samples. */
  isSharded: boolean;
  waits: PageWaits;
  /** Objects that are disposed of when the call ends. The preparation adds objects to it. */
  own: { dispose(): void }[];
}

/**
 * @param given the inputs and targets, `[x, y]`.
 * @param sampleWeight for each sample, a factor of its loss.
 */
export async function prepareTensors(
  place: EvaluationContext,
  given: readonly Tensors[],
  batchSize: number,
  sampleWeight?: Tensors,
): Promise<Prepared> {
  const { model, own, isSharded } = place;
  const [x, y] = given;
  if (given.length !== 2 || !x || !y) {
    throw new UsageError('validationData must be an array of inputs and targets, without sample weights.');
  }
  const data = new TensorData(model, x, y);
  own.push(data);
  const texts = data.describe(isSharded);
  const weights = await weightsOf(model, data.targets, { sampleWeight });
  await checkLosses(model, data, weights);
  return {
    heldOut: prepareSpan(place, data, weights, { start: 0, end: data.size }, batchSize),
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
  data: TensorData,
  weights: readonly Weights[],
  which = '',
): Promise<Sketches | undefined> {
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
export function prepareSpan(
  place: EvaluationContext,
  data: TensorData,
  weights: readonly Weights[],
  span: Span,
  batchSize: number,
): HeldOut {
  const { model, group, isSharded } = place;
  const part = isSharded ? span : partOf(span, group.rank, group.worldSize);
  return heldOutTensors(model, data, weights, part, batchSize);
}

/**
 * @param option the caller's name of the argument `batches`, for errors.
 * @param call name of the method, for errors.
 */
export function prepareDataset(
  place: EvaluationContext,
  dataset: BatchDataset,
  batches: number | undefined,
  option: string,
  call: string,
): Prepared {
  const { model, group, isSharded, waits } = place;
  const { rank, worldSize } = group;
  checkEnds(dataset, batches, option);
  const wanted = batches === undefined ? null : checkWhole(option, batches, 1);
  const limit = wanted === null || isSharded ? wanted : Math.ceil((wanted - rank) / worldSize);
  return {
    heldOut: heldOutDataset(model, shareOf(dataset, place, call), limit, waits),
    shared: { [option]: wanted, 'the size of the held-out dataset': isSharded ? null : sizeOf(dataset) },
  };
}

/** Returns the part of a dataset that this rank uses. */
export function shareOf(
  dataset: BatchDataset,
  { model, group, own, isSharded }: EvaluationContext,
  call: string,
): Share {
  if (isSharded) return { dataset, compare: () => Promise.resolve() };
  const first = new FirstElements(model, group, call);
  own.push(first);
  const whole = dataset as tf.data.Dataset<tf.TensorContainer>;
  return { dataset: new DatasetShard(whole, group, first.see), compare: () => first.compare() };
}

/** Returns the size of a dataset as text, or `null` if it is unknown. */
export function sizeOf({ size }: BatchDataset): string | null {
  return size === undefined || size === null || Number.isNaN(size) ? null : String(size);
}
