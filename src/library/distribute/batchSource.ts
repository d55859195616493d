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
