/** The layers of a model that is cut into stages. */
import type { Scalar, Tensor, Variable } from '../backward/flatten.ts';

/** A pass of a micro-batch through a layer. */
export interface LayerPass {
  /** Whether dropout is applied, and whether batch normalization uses the micro-batch. */
  training: boolean;
  /**
   * Returns the dropout mask of a place in the model. Its shape is that of the layer's output, or
   * one that broadcasts to it. If this function is `null`, a layer draws random numbers with
   * {@link seed}.
   */
  mask: ((place: number) => Tensor | undefined) | null;
  /**
   * Seed of the random numbers of this pass. A layer that is computed twice (see `recompute`) draws
   * the same numbers again.
   */
  seed: number;
}

/**
 * A part of a model that is not cut further. Its input is the output of the layer before it. A
 * layer has no memory on the device before {@link build}, so a rank builds only its own layers.
 */
export interface PipelineLayer {
  /** Name of the layer, unique in the model. */
  readonly name: string;
  /** Shape of the output for one sample. */
  readonly outputShape: readonly number[];
  /** Number of weights of all variables. */
  readonly size: number;
  /**
   * Shape of the padding mask behind the layer, for one sample. `null`, the default: the layer's
   * output has no padding mask.
   */
  readonly paddingShape?: readonly number[] | null;
  /**
   * Creates the variables with their initial values, and returns them in the order of their use.
   * Those that are trained are parameters; the others are buffers.
   */
  build(): readonly Variable[];
  /**
   * Returns the variables that training changes now. A frozen layer has none. By default, it
   * returns the variables whose `trainable` is true.
   */
  trained?(): readonly Variable[];
  /**
   * The forward pass, differentiable.
   *
   * @param x [batch, ...shape of the input]
   * @param padding mask of the input: `false` where a sample has padding (Keras calls it mask).
   * @returns [batch, ...outputShape]
   */
  apply(x: Tensor, pass: LayerPass, padding: Tensor | null): Tensor;
  /** Returns the padding mask of the output (`bool`), if the layer has a {@link paddingShape}. */
  paddingAfter?(x: Tensor, padding: Tensor | null): Tensor;
  /** Returns what regularizers add to the loss of a step, differentiable. */
  penalties?(): Scalar[];
  /** Frees the variables. */
  dispose(): void;
}

/** Returns the variables of a built layer that training changes now. */
export function trainedVariables(layer: PipelineLayer, built: readonly Variable[]): readonly Variable[] {
  return layer.trained?.() ?? built.filter(({ trainable }) => trainable);
}
