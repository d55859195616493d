/** The arguments of `DistributedModel`'s methods, with their default values and checks. */
import type * as tf from '@tensorflow/tfjs';
import { UsageError } from '../../util/errors.ts';
import type { BatchDataset } from './batchSource.ts';
import { isDataset } from './datasetBatches.ts';

interface Common {
  /**
   * Whether every rank passes its own samples. Ranks may then have different numbers of samples.
   * When a rank has no more samples, it takes part in the rest of the epoch without samples. By
   * default, all ranks pass the same samples, and each rank computes a part of every batch.
   */
  sharded?: boolean | undefined;
  /** When it is aborted, the call and the group end on every rank with an AbortError. */
  signal?: AbortSignal | undefined;
}

/**
 * Extends `tf.ModelFitArgs`. `batchSize` is the number of samples of a batch on one rank.
 * `stepsPerEpoch` and `validationSteps` are ignored, as in TensorFlow.js.
 */
export interface DistributedFitArgs extends tf.ModelFitArgs, Common {
  /**
   * Seed for the order of the samples. The seed of rank 0 is used on all ranks. Default 0. The
   * order differs between epochs and between calls of `fit`.
   */
  seed?: number | undefined;
}

/** Extends `tf.ModelFitDatasetArgs`. In every step, each rank uses one element of the dataset. */
export interface DistributedFitDatasetArgs<T> extends tf.ModelFitDatasetArgs<T>, Common {}

export interface DistributedEvaluateArgs extends tf.ModelEvaluateArgs, Common {}

export interface DistributedEvaluateDatasetArgs extends Common {
  /** Number of elements of the dataset that are used. By default, all elements are used. */
  batches?: number | undefined;
}

export const DEFAULT_BATCH_SIZE = 32;

/**
 * @throws UsageError if `shuffle` is not a boolean. TensorFlow.js accepts the string `batch`, too,
 *   but it is not implemented here.
 */
export function checkShuffle(shuffle: unknown): void {
  if (typeof shuffle === 'boolean') return;
  throw new UsageError(`shuffle is ${String(shuffle)}, which is not implemented; pass true or false.`);
}

export function noSamplesError(): UsageError {
  return new UsageError('There are no samples to train on.');
}

/**
 * @throws UsageError if `dataset` is not a dataset, or if it is infinite and `batches` does not
 *   limit it.
 */
export function checkDatasetIsFinite(dataset: BatchDataset, batches: number | null | undefined, option: string): void {
  if (!isDataset(dataset)) throw new UsageError('The dataset has no iterator(). Pass a tf.data.Dataset.');
  if (dataset.size !== Infinity || (batches !== undefined && batches !== null)) return;
  throw new UsageError(`The dataset is infinite. Pass ${option}, or limit the dataset with take().`);
}
