/** What a run trains: variables, a loss over samples by index, and a count of right answers. */
import type { Model, Variable } from '../parallel/flatten.ts';
import type { Pass } from '../parallel/pass.ts';

export interface Task {
  /** The same on all ranks: a model, or trainable variables in forward order. */
  readonly model: Model | readonly Variable[];
  readonly trainSamples: number;
  readonly testSamples: number;
  /** Most samples of one {@link countCorrect}. */
  readonly testBatch: number;
  /** Digest of the samples, to see that all ranks hold the same. */
  dataHash(): Promise<string>;
  /**
   * Hands `use` a pass that gives the summed loss of training samples `indices`; what it computes on lives until `use` is done.
   */
  withBatch<T>(indices: Uint32Array, use: (pass: Pass) => Promise<T>): Promise<T>;
  /** How many of held-out samples `indices` are answered right. */
  countCorrect(indices: Uint32Array): Promise<number>;
  /** Frees what belongs to the run. */
  dispose(): void;
}
