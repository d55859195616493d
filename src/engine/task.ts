/** What a run trains: variables, a loss over samples by index, and a count of right answers. */
import type * as tf from '@tensorflow/tfjs';

export interface Task {
  /** Trainable, float32, in forward order; the same shapes on all ranks. */
  readonly variables: readonly tf.Variable[];
  readonly trainSamples: number;
  readonly testSamples: number;
  /** Most samples of one {@link countCorrect}. */
  readonly testBatch: number;
  /** Digest of the samples, to see that all ranks hold the same. */
  dataHash(): Promise<string>;
  /** Hands `use` the summed loss of training samples `indices`; what it computes on lives until `use` is done. */
  withBatch<T>(indices: Uint32Array, use: (lossSum: () => tf.Scalar) => Promise<T>): Promise<T>;
  /** How many of held-out samples `indices` are answered right. */
  countCorrect(indices: Uint32Array): Promise<number>;
  /** Frees what belongs to the run. */
  dispose(): void;
}
