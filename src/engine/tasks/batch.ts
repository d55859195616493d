/**
 * A batch of fixed shape. A batch with fewer samples is padded with samples of weight 0, so that
 * tensors on the GPU always have the same shapes.
 */
import * as tf from '@tensorflow/tfjs';
import { wasmBackend } from '../../wasm/backend.ts';
import { sampleLength, type Dataset, type Labels } from '../../jobs/index.ts';

export interface BatchTensors {
  /** float32 [size, ...inputShape] */
  inputs: tf.Tensor;
  /** Class indices as int32 [size], or numbers to predict as float32 [size]. */
  labels: tf.Tensor1D;
  /**
   * Weights as float32 [size]: 1 for a sample, 0 for padding and for a sample that cannot be used.
   */
  weights: tf.Tensor1D;
}

export class SampleBatch {
  readonly size: number;
  readonly labels: Labels;
  readonly weights: Float32Array;
  readonly #data: Dataset;
  readonly #inputs: Float32Array;

  constructor(data: Dataset, size: number) {
    this.size = size;
    this.#data = data;
    this.#inputs = new Float32Array(size * sampleLength(data));
    this.labels = data.labelUnit === undefined ? new Int32Array(size) : new Float32Array(size);
    this.weights = new Float32Array(size);
  }

  /**
   * Passes samples `indices` (at most `size`) to `use` as tensors; see {@link load}. The tensors
   * exist until the promise of `use` resolves.
   */
  async with<T>(
    indices: Uint32Array,
    use: (tensors: BatchTensors) => Promise<T>,
    change?: (inputs: Float32Array) => void,
  ): Promise<T> {
    const tensors = await this.load(indices, change);
    try {
      return await use(tensors);
    } finally {
      tf.dispose([tensors.inputs, tensors.labels, tensors.weights]);
    }
  }

  /**
   * Copies samples `indices` (at most `size`) into the batch. The caller disposes of the result.
   *
   * @param change changes the inputs in place.
   */
  async load(indices: Uint32Array, change?: (inputs: Float32Array) => void): Promise<BatchTensors> {
    const { length } = indices;
    this.#inputs.fill(0, length * sampleLength(this.#data));
    this.labels.fill(0, length);
    this.weights.fill(1, 0, length).fill(0, length);
    const leftOut = await this.#data.read(indices, this.#inputs, this.labels);
    for (const at of leftOut ?? []) this.weights[at] = 0;
    change?.(this.#inputs);
    // Copies the arrays, because a tensor shares memory with its array until it is uploaded. The
    // WebAssembly backend copies the inputs immediately.
    return {
      inputs: tf.tensor(wasmBackend() ? this.#inputs : this.#inputs.slice(), [this.size, ...this.#data.inputShape]),
      labels: tf.tensor1d(this.labels.slice(), this.labels instanceof Int32Array ? 'int32' : 'float32'),
      weights: tf.tensor1d(this.weights.slice()),
    };
  }
}
