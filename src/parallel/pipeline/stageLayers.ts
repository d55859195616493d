/**
 * The layers of one stage: forward passes that are recorded, and their backward passes, which run
 * when the gradient of the stage's output has arrived. Each layer is recorded on a tape of its own.
 * So a pass can yield between layers, and a layer's gradients are added as soon as they are known.
 */
import * as tf from '@tensorflow/tfjs';
import type { EventLoopYielder } from '../../util/clock.ts';
import type { Scalar, Tensor, Variable } from '../backward/flatten.ts';
import { differentiateTape, disposeTape, recordTape, type Tape } from '../backward/tape.ts';
import { trainedVariables, type LayerPass, type PipelineLayer } from './pipelineLayer.ts';
import { recordLayerPass } from './recordLayerPass.ts';

/** Computes the loss of a micro-batch, or a part of it, from the output of the last layer. */
export type StageLoss = (output: Tensor) => Scalar;

/** A layer with its built variables. */
export interface BuiltLayer {
  /** Index of the layer in the model. */
  index: number;
  layer: PipelineLayer;
  /**
   * The variables that were trained when the layer was built. The layer's owner may freeze them
   * later.
   */
  parameters: readonly Variable[];
  buffers: readonly Variable[];
}

/** Receives the gradient of a variable, and disposes of it. */
export type OnGradient = (variable: Variable, gradient: Tensor) => void;

/** The input of a layer. */
interface LayerInput {
  /** The output of the layer before, or the stage's input. */
  x: Tensor;
  padding: Tensor | null;
}

/** A layer's part of a forward pass. */
interface LayerStep extends LayerInput {
  y: Tensor;
  /** The layer's recorded ops; `null` if the layer is computed again in the backward pass. */
  tape: Tape | null;
}

/** A forward pass whose backward pass has not run. */
interface OpenPass {
  /** Input of the stage. */
  x: Tensor;
  pass: LayerPass;
  steps: LayerStep[];
  /** Masks of the stage's input and of the outputs of its layers. */
  paddings: Tensor[];
  /** In the last stage: the gradient of the last layer's output. */
  dy: Tensor | null;
}

interface StageLayersOptions {
  /** The variables that the loss may use: those of this rank. */
  lossVariables: readonly Variable[];
  /**
   * Whether only the outputs of layers are kept, and each layer is computed again in the backward
   * pass (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016).
   */
  recompute: boolean;
  ongradient: OnGradient;
  yielder: EventLoopYielder;
}

export class StageLayers {
  readonly layers: readonly BuiltLayer[];
  readonly #options: StageLayersOptions;
  readonly #open = new Map<number, OpenPass>();

  constructor(layers: readonly BuiltLayer[], options: StageLayersOptions) {
    this.layers = layers;
    this.#options = options;
  }

  /**
   * Computes the forward pass of a micro-batch.
   *
   * @param input the stage's input. The stage disposes of it.
   * @param losses in the last stage: the parts of the loss. Each part is differentiated before the
   *   next one is computed, so that only one part has logits at a time.
   * @returns tensors that the caller disposes of: the output with its padding mask, if it has one,
   *   or the sum of the losses.
   */
  async forward(
    microBatch: number,
    input: LayerInput,
    pass: LayerPass,
    losses: readonly StageLoss[] | null,
  ): Promise<Tensor[]> {
    const { x } = input;
    let { padding } = input;
    const open: OpenPass = { x, pass, steps: [], paddings: padding ? [padding] : [], dy: null };
    this.#open.set(microBatch, open);
    const { recompute, yielder } = this.#options;
    for (const { layer } of this.layers) {
      const from = { x: open.steps.at(-1)?.y ?? x, padding };
      const computed = recompute
        ? { y: compute(layer, from, pass), tape: null }
        : recordLayerPass(layer, from.x, pass, padding);
      open.steps.push({ ...from, ...computed });
      padding = paddingAfter(layer, from);
      if (padding) open.paddings.push(padding);
      await yielder.yieldIfDue();
    }
    const y = (open.steps.at(-1)?.y ?? x).clone();
    if (!losses) return padding ? [y, padding.clone()] : [y];
    try {
      const { value, dy } = await this.#differentiateLosses(y, losses);
      open.dy = dy;
      return [value];
    } finally {
      y.dispose();
    }
  }

  /**
   * Computes the backward pass of a micro-batch whose forward pass has been computed.
   *
   * @param dy gradient of the stage's output, disposed of here; `null` in the last stage.
   * @param firstTrained index of the model's first layer that is trained. Layers before it need no
   *   gradients.
   * @returns the gradient of the stage's input, of which the caller disposes, or `null` if it is
   *   not needed.
   */
  async backward(microBatch: number, dy: Tensor | null, firstTrained: number): Promise<Tensor | null> {
    const open = this.#open.get(microBatch)!;
    const { steps } = open;
    let gradient: Tensor | null = dy ?? open.dy!;
    open.dy = null;
    for (let i = steps.length - 1; i >= 0; i--) {
      const built = this.layers[i]!;
      const step = steps.pop()!;
      const dx: Tensor | null = this.#differentiate(built, step, open.pass, gradient, firstTrained);
      gradient?.dispose();
      gradient = dx;
      step.y.dispose();
      await this.#options.yielder.yieldIfDue();
    }
    this.#open.delete(microBatch);
    tf.dispose([open.x, ...open.paddings]);
    return gradient;
  }

  /**
   * Computes the layers without recording them, and disposes of the input.
   *
   * @returns the output with its padding mask, if it has one. The caller disposes of them.
   */
  async infer(input: LayerInput, pass: LayerPass): Promise<Tensor[]> {
    let from = input;
    for (const { layer } of this.layers) {
      const next = { x: compute(layer, from, pass), padding: paddingAfter(layer, from) };
      tf.dispose([from.x, from.padding ?? []]);
      from = next;
      await this.#options.yielder.yieldIfDue();
    }
    return from.padding ? [from.x, from.padding] : [from.x];
  }

  /** Drops the forward passes whose backward pass has not run. */
  drop(): void {
    for (const { x, steps, paddings, dy } of this.#open.values()) {
      tf.dispose([x, ...paddings]);
      dy?.dispose();
      for (const { y, tape } of steps) {
        y.dispose();
        if (tape) disposeTape(tape);
      }
    }
    this.#open.clear();
  }

  #differentiate(
    built: BuiltLayer,
    step: LayerStep,
    pass: LayerPass,
    gradient: Tensor | null,
    firstTrained: number,
  ): Tensor | null {
    const parameters = trainedVariables(built.layer, built.parameters);
    const { x } = step;
    const needsInputGradient = firstTrained < built.index;
    const xs = needsInputGradient ? [...parameters, x] : parameters;
    // Neither this layer nor an earlier one is trained.
    if (xs.length === 0 || !gradient) {
      if (step.tape) disposeTape(step.tape);
      return null;
    }
    const { y, tape } = step.tape ? { y: step.y, tape: step.tape } : recordAgain(built, step, pass);
    const all = differentiateTape(tape, [{ tensor: y, gradient }], xs);
    if (!step.tape) y.dispose();
    for (const [i, parameter] of parameters.entries()) if (all[i]) this.#options.ongradient(parameter, all[i]);
    return needsInputGradient ? (all.at(-1) ?? tf.zerosLike(x)) : null;
  }

  /** Returns the sum of the losses and the gradient of the last layer's output. */
  async #differentiateLosses(y: Tensor, losses: readonly StageLoss[]): Promise<{ value: Tensor; dy: Tensor }> {
    const { lossVariables, ongradient, yielder } = this.#options;
    let value: Tensor = tf.scalar(0);
    let dy: Tensor = tf.zerosLike(y);
    for (const loss of losses) {
      const { result, tape } = recordTape(() => loss(y));
      const one = tf.scalar(1);
      const all = differentiateTape(tape, [{ tensor: result, gradient: one }], [...lossVariables, y]);
      for (const [i, variable] of lossVariables.entries()) if (all[i]) ongradient(variable, all[i]);
      const sums = [tf.add(value, result), tf.add(dy, all.at(-1) ?? tf.scalar(0))] as const;
      tf.dispose([value, dy, one, result, all.at(-1) ?? []]);
      [value, dy] = sums;
      await yielder.yieldIfDue();
    }
    return { value, dy };
  }
}

/** Computes a layer. The output is a tensor of its own, even if the layer returns its input. */
function compute(layer: PipelineLayer, { x, padding }: LayerInput, pass: LayerPass): Tensor {
  return tf.tidy(() => {
    const y = layer.apply(x, pass, padding);
    return y === x ? x.clone() : y;
  });
}

/** Computes the mask behind a layer. The caller disposes of it. */
function paddingAfter(layer: PipelineLayer, { x, padding }: LayerInput): Tensor | null {
  // The mask is cloned, because a layer may return the mask of its input.
  return layer.paddingShape ? tf.tidy(() => layer.paddingAfter!(x, padding).clone()) : null;
}

/** Computes a layer again and records it. Its buffers keep the values of the first computation. */
function recordAgain(
  { layer, buffers }: BuiltLayer,
  { x, padding }: LayerInput,
  pass: LayerPass,
): { y: Tensor; tape: Tape } {
  const before = buffers.map((buffer) => buffer.clone());
  try {
    return recordLayerPass(layer, x, pass, padding);
  } finally {
    for (const [i, buffer] of buffers.entries()) buffer.assign(before[i]!);
    tf.dispose(before);
  }
}
