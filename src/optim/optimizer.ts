/**
 * The interface of optimizers: update rules (`rules.ts`) on one flat Float32Array, the same bits on
 * every machine.
 */
import { MismatchError } from '../util/errors.ts';
import type { ElementRange } from '../util/range.ts';

/**
 * Settings with PyTorch's names in camelCase and PyTorch's defaults. An optimizer ignores settings
 * that it does not have.
 */
export interface OptimizerOptions {
  /** Step size, > 0. */
  learningRate: number;
  /** `momentum` and `nesterov`: share of the old velocity that remains, in [0, 1). Default 0.9. */
  momentum?: number;
  /**
   * `momentum`: share of the gradient that is not added to the velocity. In the first step, the
   * whole gradient is the velocity, as in torch. Default 0.
   */
  dampening?: number;
  /**
   * `momentum`: whether to look ahead along the velocity, as `nesterov` always does. Needs momentum
   * > 0 and dampening 0. Default false.
   */
  nesterov?: boolean;
  /** `adam` and `adamw`: decay of the mean of gradients, in [0, 1). Default 0.9. */
  beta1?: number;
  /** `adam` and `adamw`: decay of the mean of squared gradients, in [0, 1). Default 0.999. */
  beta2?: number;
  /** `adam` and `adamw`: added to the denominator, >= 0. Default 1e-8. */
  epsilon?: number;
  /**
   * L2 penalty that is added to the gradient. With `adamw`, it is applied to the parameters
   * instead. Default 0; with `adamw`, 0.01.
   */
  weightDecay?: number;
}

/**
 * State that must be equal on all ranks; a joining rank or a saved run continues exactly from it.
 */
export interface OptimizerState {
  readonly name: string;
  /**
   * The settings, with the learning rate first, then the counters. `rules.ts` defines their order.
   */
  readonly scalars: Float64Array<ArrayBuffer>;
  /** For each running average: an array with one element per parameter. */
  readonly slots: readonly Float32Array<ArrayBuffer>[];
}

export interface Optimizer {
  /**
   * Step size of the next `apply`. A schedule sets it before each step, to the same bits on every
   * rank.
   */
  learningRate: number;
  /**
   * `params -= update(gradient)`, in place; advances the state by one step. `gradient` is not
   * changed. A gradient that is not finite makes its parameter and its averages not finite, as in
   * PyTorch; nothing is skipped or clipped.
   *
   * @param ranges the elements to update, by default all. Other parameters and their averages do
   *   not change, like parameters without a gradient in PyTorch. (PyTorch counts the steps of each
   *   parameter; here all parameters share one count.)
   * @throws UsageError if an array does not have the optimizer's size, or if a range is invalid;
   *   nothing is changed then.
   */
  apply(params: Float32Array, gradient: Float32Array, ranges?: readonly ElementRange[]): void;
  /** Returns live views of the state, not copies. Hash or send them before the next `apply`. */
  state(): OptimizerState;
  /**
   * Copies `state` into this optimizer. The next `apply` then has the same effect as in the
   * optimizer that the state comes from.
   *
   * @throws MismatchError if the state belongs to an optimizer with a different name or size;
   *   nothing is changed then.
   */
  load(state: OptimizerState): void;
}

/**
 * Copies `from` into `to`.
 *
 * @throws MismatchError unless they are states of the same optimizer.
 */
export function copyOptimizerState(to: OptimizerState, from: OptimizerState): void {
  checkSameOptimizer(to, from);
  to.scalars.set(from.scalars);
  to.slots.forEach((slot, i) => slot.set(from.slots[i]!));
}

/** @throws MismatchError unless `to` and `from` are states of the same optimizer. */
export function checkSameOptimizer(to: OptimizerState, from: OptimizerState): void {
  const same =
    to.name === from.name &&
    to.scalars.length === from.scalars.length &&
    to.slots.length === from.slots.length &&
    to.slots.every((slot, i) => slot.length === from.slots[i]!.length);
  if (!same) {
    throw new MismatchError(
      `The state belongs to ${shapeOf(from)}, but this optimizer is ${shapeOf(to)}. Load a state of the same ` +
        'optimizer and model.',
    );
  }
}

function shapeOf(state: OptimizerState): string {
  const lengths = state.slots.map((slot) => slot.length).join(' + ');
  return `${state.name} with ${state.scalars.length} scalars and slots of ${lengths === '' ? 'nothing' : lengths}`;
}
