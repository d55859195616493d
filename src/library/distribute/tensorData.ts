/** Holds the samples of `fit` and `evaluate` as tensors, and selects this rank's part of them. */
import * as tf from '@tensorflow/tfjs';
import type { RankBatch, CompiledModel, FitTensors } from './compiledModel.ts';
import { sketchOfTensor, type TensorSketch } from './sketches.ts';
import type { SampleWeights } from './sampleWeights.ts';

/** Samples `start` to `end` (exclusive). */
export interface SampleSpan {
  start: number;
  end: number;
}

/** Checked inputs and targets: one tensor for each input and each output of the model. */
export class InputsAndTargets {
  readonly inputs: readonly tf.Tensor[];
  readonly targets: readonly tf.Tensor[];
  readonly #own: tf.Tensor[];

  /** @throws errors of TensorFlow.js if the tensors do not fit the model. */
  constructor(model: CompiledModel, x: FitTensors, y: FitTensors) {
    const [inputs, targets] = tf.tidy(() => model.standardizeUserDataXY(x, y, false));
    const given = new Set([listFitTensors(x), listFitTensors(y)].flat());
    this.inputs = inputs;
    this.targets = targets;
    this.#own = [...inputs, ...targets].filter((tensor) => !given.has(tensor));
  }

  /** Number of samples. */
  get size(): number {
    return this.inputs[0]!.shape[0];
  }

  /**
   * Describes inputs and targets as texts, which are compared between ranks.
   *
   * @param isSharded whether ranks may have different numbers of samples.
   */
  describe(isSharded: boolean): { x: string; y: string } {
    const textOf = ({ shape, dtype }: tf.Tensor): string =>
      `[${[isSharded ? '*' : shape[0], ...shape.slice(1)].join(', ')}] ${dtype}`;
    return { x: this.inputs.map(textOf).join(' and '), y: this.targets.map(textOf).join(' and ') };
  }

  /**
   * Returns sketches of inputs and targets. They are compared between ranks that pass the same
   * samples.
   */
  async sketch(): Promise<{ x: TensorSketch[]; y: TensorSketch[] }> {
    const [x, y] = await Promise.all(
      [this.inputs, this.targets].map((tensors) => Promise.all(tensors.map((tensor) => sketchOfTensor(tensor)))),
    );
    return { x: x!, y: y! };
  }

  /** Returns some samples as new tensors; {@link disposeBatch} disposes of them. */
  gather(indices: Int32Array, weights: readonly SampleWeights[]): RankBatch {
    const rowsOf = (tensors: readonly tf.Tensor[]): tf.Tensor[] =>
      tf.tidy(() => {
        const rows = tf.tensor1d(indices, 'int32');
        return tensors.map((tensor) => tf.gather(tensor, rows));
      });
    return {
      inputs: rowsOf(this.inputs),
      targets: rowsOf(this.targets),
      weights: weights.map((all) => all && tf.tensor1d(Float32Array.from(indices, (index) => all[index]!))),
      samples: indices.length,
    };
  }

  /** Returns the samples of a span. Call it within a tidy. */
  slice({ start, end }: SampleSpan, weights: readonly SampleWeights[]): RankBatch {
    const samples = end - start;
    return {
      inputs: this.inputs.map((tensor) => tensor.slice(start, samples)),
      targets: this.targets.map((tensor) => tensor.slice(start, samples)),
      weights: weights.map((all) => all && tf.tensor1d(all.subarray(start, end))),
      samples,
    };
  }

  dispose(): void {
    tf.dispose(this.#own);
  }
}

/**
 * Divides a span into `parts` contiguous parts, whose sizes differ by at most 1. If the span is not
 * empty, part 0 is not empty either. This is needed because all ranks use the moving averages that
 * rank 0 computes from its part.
 */
export function partOfSampleSpan({ start, end }: SampleSpan, part: number, parts: number): SampleSpan {
  const cut = (at: number): number => start + Math.ceil(((end - start) * at) / parts);
  return { start: cut(part), end: cut(part + 1) };
}

export function listFitTensors(given: FitTensors): tf.Tensor[] {
  return given instanceof tf.Tensor ? [given] : Object.values(given);
}
