/** Prepares the held-out samples of `fit`, `fitDataset` and `evaluate` for a rank. */
import type * as tf from '@tensorflow/tfjs';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { UsageError } from '../../util/errors.ts';
import type { Shared } from './agreement.ts';
import { checkEnds, checkWhole } from './arguments.ts';
import type { CompiledModel, Tensors } from './compiledModel.ts';
import type { BatchDataset } from './datasetBatches.ts';
import { heldOutDataset, heldOutTensors, type HeldOut } from './evaluation.ts';
import type { PageWaits } from './pageWaits.ts';
import { checkLosses, weightsOf, type Weights } from './sampleWeights.ts';
import { shardDataset } from './shardDataset.ts';
import { partOf, TensorData, type Span } from './tensorData.ts';

/** Held-out samples, and their description for the comparison of ranks. */
export interface Prepared {
  heldOut: HeldOut;
  shared: Shared;
}

export interface Place extends Pick<ProcessGroup, 'rank' | 'worldSize'> {
  model: CompiledModel;
  /** Whether every rank has its own samples. */
  isSharded: boolean;
  waits: PageWaits;
  /** Receives what must be disposed of when the call ends. */
  own: { dispose(): void }[];
}

/**
 * @param given `[x, y]`.
 * @param sampleWeight multiplies the losses.
 */
export async function prepareTensors(
  place: Place,
  given: readonly Tensors[],
  batchSize: number,
  sampleWeight?: Tensors,
): Promise<Prepared> {
  const { model, own, isSharded } = place;
  const [x, y] = given;
  if (given.length !== 2 || !x || !y) {
    throw new UsageError('validationData must be an array of inputs and targets, without weights of samples.');
  }
  const data = new TensorData(model, x, y);
  own.push(data);
  const texts = data.describe(isSharded);
  const weights = await weightsOf(model, data.targets, { sampleWeight });
  await checkLosses(model, data, weights);
  return {
    heldOut: prepareSpan(place, data, weights, { start: 0, end: data.size }, batchSize),
    shared: { 'x of the held-out samples': texts.x, 'y of the held-out samples': texts.y },
  };
}

/** Divides a span of samples between the ranks, unless they have their own. */
export function prepareSpan(
  place: Place,
  data: TensorData,
  weights: readonly Weights[],
  span: Span,
  batchSize: number,
): HeldOut {
  const { model, rank, worldSize, isSharded } = place;
  return heldOutTensors(model, data, weights, isSharded ? span : partOf(span, rank, worldSize), batchSize);
}

/** @param option name of the argument `batches`, for errors. */
export function prepareDataset(
  { model, rank, worldSize, isSharded, waits }: Place,
  dataset: BatchDataset,
  batches: number | undefined,
  option: string,
): Prepared {
  checkEnds(dataset, batches, option);
  const wanted = batches === undefined ? null : checkWhole(option, batches, 1);
  const limit = wanted === null || isSharded ? wanted : Math.ceil((wanted - rank) / worldSize);
  return {
    heldOut: heldOutDataset(model, isSharded ? dataset : shareOf(dataset, { rank, worldSize }), limit, waits),
    shared: { [option]: wanted, 'the size of the held-out dataset': isSharded ? null : sizeOf(dataset) },
  };
}

/** Returns a rank's share of a dataset. */
export function shareOf(dataset: BatchDataset, place: Pick<ProcessGroup, 'rank' | 'worldSize'>): BatchDataset {
  return shardDataset(dataset as tf.data.Dataset<tf.TensorContainer>, place);
}

/** Returns the size of a dataset as text; `null`: unknown. */
export function sizeOf({ size }: BatchDataset): string | null {
  return size === undefined || size === null || Number.isNaN(size) ? null : String(size);
}
