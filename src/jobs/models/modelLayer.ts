/**
 * A layer of a job's model that creates its variables in `build`. So a tab can hold some layers of
 * a model that is too large for one tab. The layer has the members that `PipelineLayer` requires.
 */
import type * as tf from '@tensorflow/tfjs';
import type { TensorEntry } from '../../formats/weights/namedTensor.ts';

/**
 * Returns the dropout mask of a place: its elements are 0 or 1 / (1 - dropout). If the function is
 * `null`, nothing is dropped.
 */
export type DropoutMaskOfPlace = ((place: number) => tf.Tensor | undefined) | null;

export interface ModelLayer {
  readonly name: string;
  /** Shape of the output for one sample. */
  readonly outputShape: readonly number[];
  /** Number of weights. */
  readonly size: number;
  /** Names and shapes of the variables, in the order of {@link build}. */
  readonly entries: readonly TensorEntry[];
  build(): readonly tf.Variable[];
  apply(x: tf.Tensor, pass: { mask: DropoutMaskOfPlace }): tf.Tensor;
  dispose(): void;
}
