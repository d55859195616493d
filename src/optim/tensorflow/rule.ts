/**
 * The base of TensorFlow.js's optimizers on flat arrays. They have the formulas and defaults of
 * @tensorflow/tfjs-core 4.22 (src/optimizers), computed by the rules of `../optimizer.ts`: the same
 * bits on every machine.
 *
 * TensorFlow.js rounds settings to float32. Here they are rounded in the same way: 1 - 0.999 in
 * float32 differs from 0.001 by 1e-5, which Adam's steps would show.
 */
import { checkApply, checkRange, checkSize, copyState, type Optimizer, type OptimizerState } from '../optimizer.ts';
import type { Range } from '../../util/range.ts';

/** Settings with the names of TensorFlow.js's `getConfig`. */
export type Config = Readonly<Record<string, unknown>>;

/** TensorFlow.js's default epsilon on devices that compute in 32 bits. */
export const DEFAULT_EPSILON = 1e-7;

/** Index into `scalars`; the settings of a rule follow. */
const LEARNING_RATE = 0;

/** @returns a number of `config`. @throws UsageError unless `low <= number < high`. */
export function setting(config: Config, name: string, low = 0, high = 1): number {
  const value = config[name];
  const number = typeof value === 'number' ? value : NaN;
  checkRange(name, number, low, high);
  return number;
}

interface Layout {
  /** Name in the state. It differs from PyTorch's optimizers, whose states have other scalars. */
  name: string;
  config: Config;
  size: number;
  /** Settings and counters, from index 1 of `scalars` on. */
  scalars?: readonly number[];
  /** First value of each slot. */
  slots?: readonly number[];
}

export abstract class TensorflowRule implements Optimizer {
  readonly size: number;
  readonly #state: OptimizerState;

  constructor({ name, config, size, scalars = [], slots = [] }: Layout) {
    checkSize(size);
    this.size = size;
    this.#state = {
      name,
      scalars: Float64Array.of(setting(config, 'learningRate', 0, Infinity), ...scalars),
      slots: slots.map((first) => new Float32Array(size).fill(first)),
    };
  }

  get learningRate(): number {
    return this.#state.scalars[LEARNING_RATE]!;
  }

  /** Unlike PyTorch's optimizers, those of TensorFlow.js accept 0, as at the start of a warm-up. */
  set learningRate(value: number) {
    checkRange('learningRate', value, 0, Infinity);
    this.#state.scalars[LEARNING_RATE] = value;
  }

  apply(params: Float32Array, gradient: Float32Array, ranges?: readonly Range[]): void {
    const updated = checkApply(this.size, params, gradient, ranges);
    this.update(params, gradient, updated, Math.fround(this.learningRate), this.#state);
  }

  state(): OptimizerState {
    return this.#state;
  }

  load(state: OptimizerState): void {
    copyState(this.#state, state);
  }

  /**
   * Does one step.
   *
   * @param rate the learning rate in float32.
   */
  protected abstract update(
    params: Float32Array,
    gradient: Float32Array,
    ranges: readonly Range[],
    rate: number,
    state: OptimizerState,
  ): void;
}
