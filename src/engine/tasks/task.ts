/**
 * The subject of a run's training: variables, a loss over samples by index, and the evaluation of
 * held-out samples.
 */
import type { HeldOutMetrics } from '../../jobs/index.ts';
import type { Model, Variable } from '../../parallel/ddp/flatten.ts';
import type { Pass } from '../../parallel/ddp/pass.ts';

export interface Evaluated {
  lossSum: number;
  correct: number;
  sums?: readonly number[];
  confusion?: ArrayLike<number>;
}

export interface Task {
  /** Equal on all ranks: a model, or trainable variables in forward order. */
  readonly model: Model | readonly Variable[];
  readonly trainSamples: number;
  /** Whether every rank has samples of its own. If not, all have the same. */
  readonly isShard?: boolean;
  readonly testSamples: number;
  /** Most samples of one {@link evaluate}. */
  readonly testBatch: number;
  /** Whether answers are right or wrong, as {@link evaluate} counts. */
  readonly classifies: boolean;
  /** Names of the classes, if {@link evaluate} counts a confusion matrix. */
  readonly classes?: readonly string[] | undefined;
  /** Other metrics of held-out samples, from sums of {@link evaluate}. */
  readonly score?: HeldOutMetrics | undefined;
  /**
   * Hash of the samples, by which ranks compare them; for a shard, hash of the facts that ranks
   * have agreed on.
   */
  dataHash(): Promise<string>;
  /** Advice if the hashes differ. */
  readonly dataAdvice: string;
  /**
   * Calls `use` with a pass that computes the summed loss of training samples `indices`. The pass's
   * tensors live until `use` resolves.
   *
   * @param step the step that learns from them: randomness in a pass depends on it and on the
   *   sample, not on the rank.
   */
  withBatch<T>(indices: Uint32Array, use: (pass: Pass) => Promise<T>, step: number): Promise<T>;
  /**
   * Returns the summed loss of held-out samples `indices`, and how many are answered correctly: 0
   * if the task does not classify; for a sample with several answers, such as a sequence, the share
   * of correct ones. With {@link classes}, also a confusion matrix, [classes * classes], a row for
   * each class; with {@link score}, its sums.
   */
  evaluate(indices: Uint32Array): Promise<Evaluated>;
  /** Frees what the run has allocated. */
  dispose(): void;
}
