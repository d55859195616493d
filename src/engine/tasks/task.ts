/**
 * The interface of a task: the variables to train, a loss over samples that are chosen by index,
 * and the evaluation of held-out samples.
 */
import type { LazyFileContents, HeldOutMetrics } from '../../jobs/index.ts';
import type { Model, Variable } from '../../parallel/backward/flatten.ts';
import type { Pass } from '../../parallel/backward/pass.ts';

export interface EvaluatedBatch {
  /**
   * The number of samples that could not be used. The other values do not include these samples.
   */
  leftOut?: number;
  lossSum: number;
  correct: number;
  sums?: readonly number[];
  confusion?: ArrayLike<number>;
}

/**
 * A step, and its epoch. Random numbers in a pass depend on them and on the samples, not on the
 * rank.
 */
export interface StepOfEpoch {
  readonly step: number;
  readonly epoch: number;
}

/** The properties of a task's samples, however its model is divided over ranks. */
export interface TaskDataFacts {
  readonly trainSamples: number;
  /** Whether every rank has samples of its own. If not, all ranks have the same samples. */
  readonly isShard?: boolean;
  readonly testSamples: number;
  /**
   * Whether the model classifies, so that {@link TrainingTask.evaluate} can count correct outputs.
   */
  readonly classifies: boolean;
  /** The names of the classes, if {@link TrainingTask.evaluate} returns a confusion matrix. */
  readonly classes?: readonly string[] | undefined;
  /**
   * Computes further metrics of held-out samples from the sums of {@link TrainingTask.evaluate}.
   */
  readonly score?: HeldOutMetrics | undefined;
  /**
   * Resolves with a hash of the samples, so that ranks can compare their data. If every rank has
   * samples of its own, resolves with a hash of the facts on which ranks have agreed.
   */
  dataHash(): Promise<string>;
  /** Advice if the hashes of two ranks differ. It is part of the error. */
  readonly dataAdvice: string;
  /** The files of samples that are read while the run trains; `null` if there are none. */
  readonly contents?: LazyFileContents | null;
  /** See `Dataset`. */
  readonly ahead?: number | undefined;
  expect?(next: readonly number[]): void;
  /** Like {@link expect}, for held-out samples. */
  expectHeldOut?(next: readonly number[]): void;
}

export interface TrainingTask extends TaskDataFacts {
  /** A model, or trainable variables in forward order. It must be equal on all ranks. */
  readonly model: Model | readonly Variable[];
  /** Whether passes may have any size. A user's model or loss may be made for one size. */
  readonly takesAnySize?: boolean;
  /** The largest number of samples for one call of {@link evaluate}. */
  readonly testBatch: number;
  readonly isLanguageModel?: boolean;
  /**
   * Calls `use` with a pass that computes the summed loss of training samples `indices`. The
   * tensors of the pass exist until the promise of `use` resolves.
   *
   * @param use may call `oncomputed` when the gradients of the pass are known.
   * @param at the step that learns from these samples.
   * @param size the largest number of samples of such a pass. Tasks with tensors of fixed shapes
   *   use it as their first dimension.
   */
  withBatch<T>(
    indices: Uint32Array,
    use: (pass: Pass, oncomputed?: () => void) => Promise<T>,
    at: StepOfEpoch,
    size: number,
  ): Promise<T>;
  /**
   * Returns the summed loss of held-out samples `indices`, and the number of correct outputs. That
   * number is 0 if the task does not classify. If a sample has several outputs, such as a sequence,
   * the fraction of its correct outputs is added. With {@link classes}, also returns a confusion
   * matrix, [classes * classes], with one row for each class. With {@link score}, also returns the
   * sums that it needs.
   */
  evaluate(indices: Uint32Array): Promise<EvaluatedBatch>;
  /** Frees everything that the run has allocated. */
  dispose(): void;
}
