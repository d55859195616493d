/** Arguments of the methods of `DistributedModel`, their defaults and checks. */
import type * as tf from '@tensorflow/tfjs';
import { UsageError } from '../../util/errors.ts';
import type { BatchDataset } from './batchSource.ts';
import { isDataset } from './datasetBatches.ts';

interface Common {
  /**
   * Whether every rank passes its own samples. Ranks may then have different numbers of samples. A
   * rank without further samples takes part in the rest of the epoch without any. By default all
   * ranks pass the same samples, and each computes a part of every batch.
   */
  sharded?: boolean | undefined;
  /** Ends the call and the group on every rank with an AbortError. */
  signal?: AbortSignal | undefined;
}

/**
 * `tf.ModelFitArgs`; `batchSize` is the number of samples on one rank. `stepsPerEpoch` and
 * `validationSteps` are ignored, as in TensorFlow.js.
 */
export interface DistributedFitArgs extends tf.ModelFitArgs, Common {
  /**
   * Seed of the order of the samples; rank 0's is used. Default 0. Every `fit` and every epoch has
   * another order.
   */
  seed?: number | undefined;
}

/**
 * `tf.ModelFitDatasetArgs`; in every batch of an epoch, each rank has one element of the dataset.
 */
export interface DistributedFitDatasetArgs<T> extends tf.ModelFitDatasetArgs<T>, Common {}

export interface DistributedEvaluateArgs extends tf.ModelEvaluateArgs, Common {}

export interface DistributedEvaluateDatasetArgs extends Common {
  /** Number of elements of the dataset that are used. By default all. */
  batches?: number | undefined;
}

export const DEFAULT_BATCH_SIZE = 32;

/** @throws UsageError if `value` is not a whole number of at least `min`. */
export function checkWhole(name: string, value: number, min: number): number {
  if (Number.isSafeInteger(value) && value >= min) return value;
  throw new UsageError(`${name} is ${value}; pass a whole number of at least ${min}.`);
}

/** @throws UsageError for the string `batch`, which TensorFlow.js's types exclude. */
export function checkShuffle(shuffle: unknown): void {
  if (typeof shuffle === 'boolean') return;
  throw new UsageError(`shuffle is ${String(shuffle)}, which is not implemented; pass true or false.`);
}

export function noSamples(): UsageError {
  return new UsageError('There are no samples to train on.');
}

/** @throws UsageError for a dataset whose end would never come. */
export function checkEnds(dataset: BatchDataset, batches: number | null | undefined, option: string): void {
  if (!isDataset(dataset)) throw new UsageError('The dataset has no iterator(). Pass a tf.data.Dataset.');
  if (dataset.size !== Infinity || (batches !== undefined && batches !== null)) return;
  throw new UsageError(`The dataset is infinite. Pass ${option}, or limit the dataset with take().`);
}
