/**
 * The layers of one stage: forward passes that are recorded, and their backward passes, which run
 * when the gradient of the stage's output has arrived.
 */
import * as tf from '@tensorflow/tfjs';
import type { Scalar, Tensor, Variable } from '../ddp/flatten.ts';
import { differentiateTape, disposeTape, recordTape, type Tape } from '../ddp/tape.ts';
import type { LayerPass, PipelineLayer } from './pipelineLayer.ts';

/** Computes the loss of a micro-batch from the output of the last layer. */
export type StageLoss = (output: Tensor) => Scalar;

/** A forward pass whose backward pass has not run. */
interface OpenPass {
  /** Input of the stage. It is disposed of after the backward pass. */
  x: Tensor;
  pass: LayerPass;
  loss: StageLoss | null;
  /** `null` if the forward pass is computed again. */
  recorded: { y: Tensor; tape: Tape } | null;
}

export interface StageGradients {
  /** The gradient of the stage's input; `null` if the input has none. */
  dx: Tensor | null;
  /** By index of the variable; `null` if the stage does not use the variable. */
  gradients: (Tensor | null)[];
}

export class StageLayers {
  readonly layers: readonly PipelineLayer[];
  readonly #variables: readonly Variable[];
  readonly #buffers: readonly Variable[];
  readonly #recompute: boolean;
  readonly #open = new Map<number, OpenPass>();

  /**
   * @param variables the variables to differentiate by.
   * @param buffers variables that a forward pass may change.
   * @param recompute whether a forward pass keeps only its input, and is computed again in the
   *   backward pass (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016).
   */
  constructor(
    layers: readonly PipelineLayer[],
    variables: readonly Variable[],
    buffers: readonly Variable[],
    recompute: boolean,
  ) {
    this.layers = layers;
    this.#variables = variables;
    this.#buffers = buffers;
    this.#recompute = recompute;
  }

  /** Number of micro-batches whose activations are kept. */
  get inFlight(): number {
    return this.#open.size;
  }

  /**
   * Computes the forward pass of a micro-batch.
   *
   * @param x the stage's input. The stage disposes of it.
   * @param loss the loss, in the last stage.
   * @returns a tensor that the caller disposes of: the output, or the loss.
   */
  forward(microBatch: number, x: Tensor, pass: LayerPass, loss: StageLoss | null): Tensor {
    const compute = (): Tensor => this.#compute(x, pass, loss);
    if (this.#recompute) {
      this.#open.set(microBatch, { x, pass, loss, recorded: null });
      return tf.tidy(() => copyIfSame(compute(), x));
    }
    const { result: y, tape } = recordTape(() => copyIfSame(compute(), x));
    this.#open.set(microBatch, { x, pass, loss, recorded: { y, tape } });
    return y.clone();
  }

  /**
   * Computes the backward pass of a micro-batch whose forward pass has been computed.
   *
   * @param dy gradient of the stage's output; the caller disposes of it.
   * @param needsInputGradient whether the gradient of the stage's input is sent to another stage.
   */
  backward(microBatch: number, dy: Tensor, needsInputGradient: boolean): StageGradients {
    const { x, pass, loss, recorded } = this.#open.get(microBatch)!;
    this.#open.delete(microBatch);
    const { y, tape } = recorded ?? this.#again(x, pass, loss);
    try {
      const xs = needsInputGradient ? [...this.#variables, x] : this.#variables;
      // A stage without weights, at the start of the pipeline.
      if (xs.length === 0) {
        disposeTape(tape);
        return { dx: null, gradients: [] };
      }
      const all = differentiateTape(tape, [{ tensor: y, gradient: dy }], xs);
      const gradients = all.slice(0, this.#variables.length);
      const dx = needsInputGradient ? (all.at(-1) ?? tf.zerosLike(x)) : null;
      return { dx, gradients };
    } finally {
      tf.dispose([x, y]);
    }
  }

  /** Computes the layers without recording them. The caller disposes of the result. */
  infer(x: Tensor, pass: LayerPass): Tensor {
    return tf.tidy(() => copyIfSame(this.#compute(x, pass, null), x));
  }

  /** Drops the forward passes whose backward pass has not run. */
  drop(): void {
    for (const { x, recorded } of this.#open.values()) {
      x.dispose();
      if (!recorded) continue;
      recorded.y.dispose();
      disposeTape(recorded.tape);
    }
    this.#open.clear();
  }

  #compute(x: Tensor, pass: LayerPass, loss: StageLoss | null): Tensor {
    let y = x;
    for (const layer of this.layers) y = layer.apply(y, pass);
    return loss ? loss(y) : y;
  }

  /** Records a forward pass again. The buffers keep the values of the first time. */
  #again(x: Tensor, pass: LayerPass, loss: StageLoss | null): { y: Tensor; tape: Tape } {
    const before = this.#buffers.map((buffer) => buffer.clone());
    try {
      const { result: y, tape } = recordTape(() => copyIfSame(this.#compute(x, pass, loss), x));
      return { y, tape };
    } finally {
      for (const [i, buffer] of this.#buffers.entries()) buffer.assign(before[i]!);
      tf.dispose(before);
    }
  }
}

/** A stage without effect returns its input, which is disposed of apart from the output. */
function copyIfSame(y: Tensor, x: Tensor): Tensor {
  return y === x ? x.clone() : y;
}
