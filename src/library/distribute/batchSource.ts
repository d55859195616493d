/** Where the batches of a rank come from: tensors or a dataset. */
import type { Batch } from './compiledModel.ts';

export interface BatchSource {
  /** Number of batches in an epoch; `null`: not known before the data end. */
  readonly steps: number | null;
  /** Prepares the first batch of an epoch. */
  begin(epoch: number): Promise<void>;
  /**
   * Returns this rank's part of a batch; `null` if the rank has no samples in it. The caller
   * disposes of it.
   */
  next(index: number): Promise<Batch | null>;
  /** Number of samples of all ranks in a batch; `null`: ranks must add up their parts. */
  sizeOf(index: number): number | null;
}

/** The part of a dataset that is used. TensorFlow.js's `fitDataset` accepts the same objects. */
export interface BatchDataset {
  iterator(): Promise<{ next(): Promise<IteratorResult<unknown>> }>;
  readonly size?: number | null;
}

/** A rank's elements of a dataset. */
export interface Share {
  dataset: BatchDataset;
  /**
   * Call it on every rank when the first element has been read.
   *
   * @throws (rejects) MismatchError on every rank if ranks have read different elements.
   */
  compare: () => Promise<void>;
}
