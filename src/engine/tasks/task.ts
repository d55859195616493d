/**
 * What a run trains: variables, a loss over samples by index, and how well held-out samples are
 * answered.
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
  /** The same on all ranks: a model, or trainable variables in forward order. */
  readonly model: Model | readonly Variable[];
  readonly trainSamples: number;
  /**
   * Whether the samples are this rank's alone, and every other rank has its own; without it all
   * have the same.
   */
  readonly isShard?: boolean;
  readonly testSamples: number;
  /** Most samples of one {@link evaluate}. */
  readonly testBatch: number;
  /** Whether answers are right or wrong, which {@link evaluate} then counts. */
  readonly classifies: boolean;
  /** Names of the classes, where {@link evaluate} counts which is taken for which. */
  readonly classes?: readonly string[] | undefined;
  /** What else is told of held-out samples, from sums of {@link evaluate}. */
  readonly score?: HeldOutMetrics | undefined;
  /**
   * Digest of the samples, to see that all ranks hold the same; of a shard, of all that ranks have
   * agreed on.
   */
  dataHash(): Promise<string>;
  /** What to do where they do not. */
  readonly dataAdvice: string;
  /**
   * Hands `use` a pass that gives the summed loss of training samples `indices`; what it computes
   * on lives until `use` is done.
   *
   * @param step that they are learned from in: what is random in a pass depends on it and on the
   *   sample, and not on the rank.
   */
  withBatch<T>(indices: Uint32Array, use: (pass: Pass) => Promise<T>, step: number): Promise<T>;
  /**
   * The loss of held-out samples `indices`, summed, and how many are answered right: of a sample
   * with several answers, as a sequence has, the share. 0 where the task does not classify. With
   * {@link classes}, also how many of each class were answered with each, [classes * classes], a
   * row for each class; with {@link score}, its sums.
   */
  evaluate(indices: Uint32Array): Promise<Evaluated>;
  /** Frees what belongs to the run. */
  dispose(): void;
}
