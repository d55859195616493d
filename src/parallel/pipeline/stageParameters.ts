/**
 * The parameters of a rank's layers, their gradients and the optimizers' averages.
 *
 * Each parameter has an optimizer of its own, and all of them take the same steps. So layers can
 * move between ranks with the averages of their parameters. Gradients of micro-batches are added on
 * the device and read once per step. The optimizers run on the CPU, as everywhere (see
 * `distributedDataParallel.ts`).
 */
import * as tf from '@tensorflow/tfjs';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Optimizer } from '../../optim/optimizer.ts';
import { divide } from '../../util/divide.ts';
import { TensorReader, writeVariables, type Tensor, type Variable } from '../ddp/flatten.ts';

/** A parameter on the CPU. */
interface Entry {
  variable: Variable;
  values: Float32Array<ArrayBuffer>;
  /** The sum of the micro-batches' gradients, then their average. Reused in every step. */
  gradient: Float32Array<ArrayBuffer>;
  optimizer: Optimizer;
}

export class StageParameters {
  readonly #entries: readonly Entry[];
  /** Sums of gradients on the device, by parameter. */
  #sums: (Tensor | null)[];
  readonly #reader = new TensorReader();

  private constructor(entries: readonly Entry[]) {
    this.#entries = entries;
    this.#sums = entries.map(() => null);
  }

  /** Reads the values of `variables` from the device. */
  static async create(
    variables: readonly Variable[],
    createOptimizer: (size: number) => Optimizer,
  ): Promise<StageParameters> {
    const entries = variables.map((variable) => ({
      variable,
      values: new Float32Array(variable.size),
      gradient: new Float32Array(variable.size),
      optimizer: createOptimizer(variable.size),
    }));
    const parameters = new StageParameters(entries);
    await parameters.read();
    return parameters;
  }

  /** Values of each parameter. Change them in place, and then call {@link write}. */
  get values(): readonly Float32Array<ArrayBuffer>[] {
    return this.#entries.map(({ values }) => values);
  }

  /** Bytes of the parameters' arrays on the CPU. */
  get cpuBytes(): number {
    return this.#entries.reduce((sum, { values, gradient, optimizer }) => {
      const slots = optimizer.state().slots.reduce((total, { byteLength }) => total + byteLength, 0);
      return sum + values.byteLength + gradient.byteLength + slots;
    }, 0);
  }

  /** Parameters and the state of the optimizers. */
  state(): ArrayBufferView[] {
    return this.#entries.flatMap(({ values, optimizer }) => {
      const { scalars, slots } = optimizer.state();
      return [values, scalars, ...slots];
    });
  }

  /** Adds a gradient of a micro-batch, and disposes of it. */
  add(variable: Variable, gradient: Tensor): void {
    const i = this.#entries.findIndex((entry) => entry.variable === variable);
    const sum = this.#sums[i];
    this.#sums[i] = sum ? tf.add(sum, gradient) : gradient;
    if (sum) tf.dispose([sum, gradient]);
  }

  /** Drops the gradients of {@link add}. */
  drop(): void {
    tf.dispose(this.#sums.filter((sum) => sum !== null));
    this.#sums = this.#entries.map(() => null);
  }

  /**
   * Reads the sums of gradients, adds those of the other ranks of `group`, and divides them by
   * `samples`. Every rank of the group must call it; they have the same layers.
   */
  async reduce(group: ProcessGroup | null, samples: number): Promise<void> {
    for (const [i, { gradient }] of this.#entries.entries()) {
      const sum = this.#sums[i];
      this.#sums[i] = null;
      if (!sum) gradient.fill(0);
      else {
        await this.#reader.read(0, [sum], gradient);
        sum.dispose();
      }
      await group?.allReduce(gradient);
      divide(gradient, samples);
    }
  }

  /** Returns the sum of the squares of all gradients, in float64. */
  squaredNorm(): number {
    let squares = 0;
    for (const { gradient } of this.#entries) for (const value of gradient) squares += value * value;
    return squares;
  }

  /** Multiplies the gradients by `factor`. */
  scale(factor: number): void {
    for (const { gradient } of this.#entries) for (let i = 0; i < gradient.length; i++) gradient[i]! *= factor;
  }

  /** Takes one step of all optimizers. */
  apply(): void {
    for (const { values, gradient, optimizer } of this.#entries) optimizer.apply(values, gradient);
    this.write();
  }

  /** Copies the values to the device. */
  write(): void {
    for (const { variable, values } of this.#entries) {
      writeVariables([variable], [{ parameter: 0, offset: 0, size: values.length }], values);
    }
  }

  /** Copies the values from the device. */
  async read(): Promise<void> {
    for (const { variable, values } of this.#entries) await this.#reader.read(0, [variable], values);
  }

  dispose(): void {
    this.drop();
    this.#reader.dispose();
  }
}
