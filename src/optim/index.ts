/** Optimizers on flat Float32Arrays, bit-identical on every machine. */
import type { OptimizerName } from '../spec/names.ts';
import { UsageError } from '../util/errors.ts';
import type { ElementRange } from '../util/range.ts';
import { copyOptimizerState, type Optimizer, type OptimizerOptions, type OptimizerState } from './optimizer.ts';
import {
  checkedOptimizerSetting,
  TENSORFLOW_UPDATE_RULES,
  TORCH_UPDATE_RULES,
  type OptimizerConfig,
  type OptimizerLibrary,
} from './rules.ts';

export type { OptimizerName } from '../spec/names.ts';
export type { Optimizer, OptimizerOptions, OptimizerState } from './optimizer.ts';
export { TENSORFLOW_DEFAULT_EPSILON, type OptimizerConfig } from './rules.ts';
export { divideVector } from './vectors.ts';

/**
 * Creates an optimizer for `size` parameters, with averages of zero.
 *
 * @throws UsageError for an unknown name, a setting out of its range or an invalid size.
 *
 * @example
 * ```ts
 * const ddp = await DistributedDataParallel.create(model, group);
 * const optimizer = createOptimizer('adam', { learningRate: 0.01 }, ddp.parameters.length);
 * ```
 */
export function createOptimizer(name: OptimizerName, options: OptimizerOptions, size: number): Optimizer {
  if (Object.hasOwn(TORCH_UPDATE_RULES.rules, name))
    return new RuleOptimizer(TORCH_UPDATE_RULES, name, { ...options }, size);
  throw new UsageError(`There is no optimizer "${name}": use ${Object.keys(TORCH_UPDATE_RULES.rules).join(', ')}.`);
}

/**
 * Creates the counterpart of a TensorFlow.js optimizer, in the state before the first step, from
 * the optimizer's class name and the result of `getConfig`. Returns `null` if TensorFlow.js has no
 * such class.
 *
 * @throws UsageError for a setting out of its range or an invalid size.
 */
export function createTensorflowRule(className: string, config: OptimizerConfig, size: number): Optimizer | null {
  return isTensorflowRule(className) ? new RuleOptimizer(TENSORFLOW_UPDATE_RULES, className, config, size) : null;
}

/** Whether one of TensorFlow.js's optimizers has this class name. */
export function isTensorflowRule(className: string): boolean {
  return Object.hasOwn(TENSORFLOW_UPDATE_RULES.rules, className);
}

/** An optimizer: one of the update rules in `rules.ts`, with its state. */
class RuleOptimizer<Name extends string> implements Optimizer {
  readonly #library: OptimizerLibrary<Name>;
  readonly #name: Name;
  readonly #size: number;
  /** Names of the state's scalars. */
  readonly #names: readonly string[];
  readonly #state: OptimizerState;

  constructor(library: OptimizerLibrary<Name>, name: Name, options: OptimizerConfig, size: number) {
    if (!Number.isSafeInteger(size) || size < 0) {
      throw new UsageError(
        `The size of an optimizer is ${size}. Pass the number of parameters, a whole number of at least 0.`,
      );
    }
    const { settings, counters = {}, slots, fixed, check } = library.rules[name];
    const config = { ...options, ...fixed };
    this.#library = library;
    this.#name = name;
    this.#size = size;
    this.#names = [...Object.keys(settings), ...Object.keys(counters)];
    this.#state = {
      name: library.stateName(name),
      scalars: new Float64Array(this.#names.length),
      slots: (slots?.(config) ?? []).map((first) => new Float32Array(size).fill(first)),
    };
    const { scalars } = this.#state;
    scalars.set(Object.entries(settings).map(([key, setting]) => checkedOptimizerSetting(config, key, setting)));
    check?.(this.#value);
    const firsts = Object.values(counters).map(({ first }) => (typeof first === 'number' ? first : this.#value(first)));
    scalars.set(firsts, Object.keys(settings).length);
  }

  get learningRate(): number {
    return this.#state.scalars[0]!;
  }

  set learningRate(value: number) {
    const { settings } = this.#library.rules[this.#name];
    this.#state.scalars[0] = checkedOptimizerSetting(
      { learningRate: value },
      'learningRate',
      settings['learningRate']!,
    );
  }

  apply(params: Float32Array, gradient: Float32Array, ranges?: readonly ElementRange[]): void {
    const updated = this.#checked(params, gradient, ranges);
    const { countsAhead, round, rules } = this.#library;
    const rule = rules[this.#name];
    if (!countsAhead) this.#count();
    const rest = (setting: string): number => round(1 - this.#scalar(setting));
    const { slots } = this.#state;
    rule.update({ params, gradient, ranges: updated, slots, value: this.#value, rest }, rule);
    if (countsAhead) this.#count();
  }

  state(): OptimizerState {
    return this.#state;
  }

  load(state: OptimizerState): void {
    copyOptimizerState(this.#state, state);
  }

  /** Advances the counters by one step. */
  #count(): void {
    const { scalars } = this.#state;
    const { counters = {} } = this.#library.rules[this.#name];
    for (const [name, { factor }] of Object.entries(counters)) {
      const next = factor ? this.#library.round(this.#scalar(name) * this.#value(factor)) : this.#scalar(name) + 1;
      scalars[this.#names.indexOf(name)] = next;
    }
  }

  readonly #value = (name: string): number => this.#library.round(this.#scalar(name));

  #scalar(name: string): number {
    return this.#state.scalars[this.#names.indexOf(name)] ?? 0;
  }

  /** Returns the ranges to update: by default one with all elements. */
  #checked(params: Float32Array, gradient: Float32Array, ranges?: readonly ElementRange[]): readonly ElementRange[] {
    const size = this.#size;
    if (params.length !== size || gradient.length !== size) {
      throw new UsageError(
        `This optimizer was created for ${size} parameters, but received ${params.length} parameters and a gradient of ` +
          `${gradient.length} elements. Pass the flat arrays of the model for which it was created.`,
      );
    }
    const beyond = ranges?.find(({ start, end }) => !(start >= 0 && start <= end && end <= size));
    if (beyond) {
      throw new UsageError(
        `The range ${beyond.start} .. ${beyond.end} is invalid. Pass ranges with 0 <= start <= end <= ${size}.`,
      );
    }
    return ranges ?? [{ start: 0, end: size }];
  }
}
