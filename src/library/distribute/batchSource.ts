/** Where the batches of a rank come from: tensors or a dataset. */
import type { RankBatch } from './compiledModel.ts';

export interface BatchSource {
  /** Number of batches in an epoch. `null` if it is not known before the end of the data. */
  readonly steps: number | null;
  /** Prepares the first batch of an epoch. */
  begin(epoch: number): Promise<void>;
  /**
   * Returns this rank's part of a batch; `null` if the rank has no samples in it. The caller
   * disposes of it.
   */
  next(index: number): Promise<RankBatch | null>;
  /**
   * Number of samples of all ranks in a batch. `null` if it is unknown: then each rank reports the
   * size of its part, and the sizes are added.
   */
  sizeOf(index: number): number | null;
}

/**
 * The members of a dataset that are used. TensorFlow.js's `fitDataset` accepts the same objects.
 */
export interface BatchDataset {
  iterator(): Promise<{ next(): Promise<IteratorResult<unknown>> }>;
  readonly size?: number | null;
}

/** The part of a dataset that one rank uses. */
export interface DatasetShare {
  dataset: BatchDataset;
  /**
   * Compares the first elements that ranks have read. Every rank must call it after it has read its
   * first element.
   *
   * @throws (rejects) MismatchError on every rank if ranks have read different elements.
   */
  compare: () => Promise<void>;
}
