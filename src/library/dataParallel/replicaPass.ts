/**
 * A pass through one replica: the forward pass records a tape, and the backward pass begins with
 * the gradients of the outputs.
 */
import * as tf from '@tensorflow/tfjs';
import type { Model, ModelVariables } from '../../parallel/backward/flatten.ts';
import { differentiateTape, disposeTape, recordTape, type Tape } from '../../parallel/backward/tape.ts';
import { UsageError } from '../../util/errors.ts';
import type { PassMemory } from './messages.ts';

/**
 * Keeps the tape of a forward pass for the backward pass. Because the backward pass does not repeat
 * the forward pass, both have the same dropout masks.
 */
export class ReplicaPass {
  readonly #variables: ModelVariables;
  readonly #model: Model;
  readonly #weightBytes: number;
  #kept: { tape: Tape; inputs: tf.Tensor[]; outputs: tf.Tensor[] } | null = null;
  #before: PassMemory = { bytes: 0, tensors: 0 };
  #peak: PassMemory = { bytes: 0, tensors: 0 };

  constructor(model: Model, variables: ModelVariables) {
    this.#model = model;
    this.#variables = variables;
    const all = [...variables.parameters, ...variables.buffers];
    this.#weightBytes = all.reduce((sum, { size }) => sum + size, 0) * Float32Array.BYTES_PER_ELEMENT;
  }

  /**
   * The largest amount of memory in the latest pass: the weights, and the tensors that the pass
   * created.
   */
  get memory(): PassMemory {
    const { parameters, buffers } = this.#variables;
    return {
      bytes: this.#weightBytes + this.#peak.bytes,
      tensors: parameters.length + buffers.length + this.#peak.tensors,
    };
  }

  /** Begins a pass. From now on, new memory counts as memory of the pass. */
  begin(): void {
    this.drop();
    this.#before = memoryNow();
    this.#peak = { bytes: 0, tensors: 0 };
  }

  /** Counts the memory that the pass uses now. */
  measure(): void {
    const now = memoryNow();
    this.#peak = {
      bytes: Math.max(this.#peak.bytes, now.bytes - this.#before.bytes),
      tensors: Math.max(this.#peak.tensors, now.tensors - this.#before.tensors),
    };
  }

  /** Runs the model without a tape. The caller disposes of the outputs. */
  predict(inputs: tf.Tensor[]): tf.Tensor[] {
    const outputs = tf.tidy(() => this.#apply(inputs, false));
    this.measure();
    return outputs;
  }

  /**
   * Runs the model in training mode and keeps the pass. This object then owns the inputs and
   * outputs, and disposes of them.
   */
  forward(inputs: tf.Tensor[]): readonly tf.Tensor[] {
    const { result: outputs, tape } = recordTape(() => this.#apply(inputs, true));
    this.#kept = { tape, inputs, outputs };
    this.measure();
    return outputs;
  }

  /**
   * Back-propagates through the kept pass and drops it. Returns one gradient for each parameter, in
   * forward order. The caller disposes of these and of the arguments.
   */
  backward(gradients: readonly tf.Tensor[]): tf.Tensor[] {
    if (!this.#kept) throw new UsageError('There is no forward pass to differentiate.');
    const { tape, outputs } = this.#kept;
    const { parameters } = this.#variables;
    try {
      const pairs = outputs.map((tensor, i) => ({ tensor, gradient: gradients[i]! }));
      const found = differentiateTape(tape, pairs, parameters);
      const all = found.map((gradient, i) => gradient ?? tf.zerosLike(parameters[i]!));
      this.measure();
      return all;
    } finally {
      this.drop();
    }
  }

  /** Frees the kept pass. */
  drop(): void {
    if (!this.#kept) return;
    const { tape, inputs, outputs } = this.#kept;
    this.#kept = null;
    disposeTape(tape);
    tf.dispose([inputs, outputs]);
  }

  /**
   * Runs the model. The outputs are copies, because an output may be one of the inputs, which are
   * disposed of separately.
   */
  #apply(inputs: tf.Tensor[], training: boolean): tf.Tensor[] {
    const outputs = this.#model.apply(inputs, { training }) as tf.Tensor | tf.Tensor[];
    return [outputs].flat().map((output) => output.clone());
  }
}

function memoryNow(): PassMemory {
  const { numBytes, numTensors } = tf.memory();
  return { bytes: numBytes, tensors: numTensors };
}
