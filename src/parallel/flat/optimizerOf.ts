/** Recognizes TensorFlow.js's optimizers and runs them on flat arrays. */
import * as tf from '@tensorflow/tfjs';
import {
  createTensorflowRule,
  TENSORFLOW_DEFAULT_EPSILON,
  isTensorflowRule,
  type OptimizerConfig,
  type Optimizer,
  type OptimizerState,
} from '../../optim/index.ts';
import { UsageError } from '../../util/errors.ts';
import type { ElementRange } from '../../util/range.ts';

/**
 * The public part of `tf.Optimizer`, so that a page may use the types of another copy of
 * TensorFlow.js.
 */
export interface TensorflowOptimizer extends Pick<
  tf.Optimizer,
  'applyGradients' | 'getClassName' | 'getConfig' | 'iterations'
> {
  /**
   * Only SGD and momentum have this method, because they also keep the learning rate in a tensor.
   */
  setLearningRate?: (rate: number) => void;
}

const ALLOWED =
  'Pass tf.train.sgd, momentum, adagrad, adadelta, adam, adamax or rmsprop, or the result of createOptimizer.';

/**
 * Returns an optimizer for flat arrays that has the formulas, settings and learning rate of a
 * TensorFlow.js optimizer, such as `tf.train.adam(1e-3)` or the `optimizer` of a compiled model.
 * The result computes the same bits on every machine, and TensorFlow.js's values up to rounding.
 *
 * A change of the learning rate of either optimizer takes effect on both. Other settings are read
 * once. TensorFlow.js's optimizer itself does not step, so its `iterations` stay 0.
 *
 * On a device that computes in 16 bits, TensorFlow.js's default epsilon is 1e-4. It is replaced by
 * the 1e-7 of other devices, because ranks must have equal settings. An epsilon of 1e-4 that was
 * set on such a device cannot be distinguished from the default.
 *
 * @param size number of parameters: `ddp.parameters.length`.
 * @throws UsageError for a class that is not one of TensorFlow.js's seven, or extends or changes
 *   one of them; for an optimizer that has already stepped, because its averages would be lost; and
 *   for a setting out of its range.
 *
 * @example
 * ```ts
 * const ddp = await DistributedDataParallel.create(model, group);
 * const optimizer = optimizerOf(tf.train.rmsprop(0.01), ddp.parameters.length);
 * const { slots } = optimizer.state();
 * ```
 */
export function optimizerOf(optimizer: TensorflowOptimizer, size: number): Optimizer {
  if (!isTensorflowOptimizer(optimizer)) {
    throw new UsageError(`${textOf(optimizer)} is not an optimizer. ${ALLOWED}`);
  }
  const rule =
    isUnchanged(optimizer) && createTensorflowRule(optimizer.getClassName(), optimizerSettingsOf(optimizer), size);
  if (!rule) {
    throw new UsageError(
      `${textOf(optimizer)} is a custom tf.Optimizer. It computes with tensors, whose bits differ between devices, so ` +
        `ranks would drift apart. ${ALLOWED}`,
    );
  }
  if (optimizer.iterations > 0) {
    throw new UsageError(
      `The optimizer ${optimizer.getClassName()} has already done ${optimizer.iterations} steps, and its averages cannot ` +
        'be taken over. Create a new optimizer, or compile the model again, before distributed training.',
    );
  }
  return new FollowingOptimizer(rule, optimizer);
}

/**
 * Whether {@link optimizerOf} can run the optimizer on flat arrays: it is one of TensorFlow.js's
 * seven, unchanged, and has not stepped by itself.
 *
 * @throws UsageError if the optimizer has averages of distributed steps and has then stepped by
 *   itself: the averages would be lost.
 */
export function canRunOptimizerFlat(optimizer: TensorflowOptimizer): boolean {
  checkSteps(optimizer);
  return isUnchanged(optimizer) && isTensorflowRule(optimizer.getClassName()) && optimizer.iterations === 0;
}

/** A flat optimizer, and the parameters for which it was created. */
interface Known {
  flat: Optimizer;
  parameters: readonly object[];
  /** For each average: the value with which all its elements begin. */
  initial: readonly (number | undefined)[];
}

/**
 * The flat optimizers that were created for an optimizer of TensorFlow.js: the latest one, and the
 * one of each parameter.
 */
interface KnownOptimizers {
  latest: Known;
  byParameter: WeakMap<object, Known>;
}

const known = new WeakMap<TensorflowOptimizer, KnownOptimizers>();

/**
 * Returns a flat optimizer unchanged. For an optimizer of TensorFlow.js, returns the result of
 * {@link optimizerOf}. For the same optimizer and the same parameters, the result is the same, so
 * that a model keeps its averages when it is wrapped again.
 *
 * @throws UsageError if averages would be lost: the optimizer has also stepped by itself, or its
 *   averages belong to a different set of parameters that contains some of these.
 */
export function toFlatOptimizer<Flat extends Pick<Optimizer, 'apply'>>(
  optimizer: Flat | TensorflowOptimizer,
  parameters: readonly Pick<tf.Variable, 'size'>[],
): Flat | Optimizer {
  if (isFlat(optimizer)) return optimizer;
  const before = isTensorflowOptimizer(optimizer) ? known.get(optimizer) : undefined;
  if (before) checkSteps(optimizer);
  const found = parameters.map((parameter) => before?.byParameter.get(parameter)).find((each) => each !== undefined);
  if (found && isSame(found.parameters, parameters)) return found.flat;
  if (found && hasAverages(found)) {
    throw new UsageError(
      `The optimizer ${optimizer.getClassName()} has averages for other parameters (${found.parameters.length}) than the model ` +
        `trains now (${parameters.length}), for example because a layer was frozen. These averages would be lost. Pass ` +
        'a new optimizer to ddp.step, or compile the model with a new one.',
    );
  }
  const size = parameters.reduce((sum, parameter) => sum + parameter.size, 0);
  const flat = optimizerOf(optimizer, size);
  const latest = { flat, parameters, initial: flat.state().slots.map(([first]) => first) };
  const byParameter = before?.byParameter ?? new WeakMap<object, Known>();
  for (const parameter of parameters) byParameter.set(parameter, latest);
  known.set(optimizer, { latest, byParameter });
  return flat;
}

/** @throws UsageError if an optimizer with averages of distributed steps has stepped by itself. */
function checkSteps(optimizer: TensorflowOptimizer): void {
  const { latest } = known.get(optimizer) ?? {};
  if (!latest || (isUnchanged(optimizer) && optimizer.iterations === 0) || !hasAverages(latest)) return;
  const cause = isUnchanged(optimizer)
    ? `has done ${optimizer.iterations} steps by itself, as in model.fit,`
    : 'received another applyGradients';
  throw new UsageError(
    `The optimizer ${optimizer.getClassName()} ${cause} after distributed steps, whose averages would be lost. Use a new ` +
      'optimizer, for example by compiling the model again. Use each optimizer only for distributed training or only for model.fit.',
  );
}

function isSame(a: readonly object[], b: readonly object[]): boolean {
  return a.length === b.length && a.every((each, i) => each === b[i]);
}

function hasAverages({ flat, initial }: Known): boolean {
  return flat.state().slots.some((slot, i) => slot.some((value) => value !== initial[i]));
}

/** A flat optimizer whose learning rate is that of a `tf.Optimizer`. */
class FollowingOptimizer implements Optimizer {
  readonly #rule: Optimizer;
  readonly #leader: TensorflowOptimizer;

  constructor(rule: Optimizer, leader: TensorflowOptimizer) {
    this.#rule = rule;
    this.#leader = leader;
  }

  get learningRate(): number {
    return Number(this.#leader.getConfig()['learningRate']);
  }

  set learningRate(value: number) {
    this.#rule.learningRate = value;
    if (this.#leader.setLearningRate) this.#leader.setLearningRate(value);
    else Reflect.set(this.#leader, 'learningRate', value);
  }

  apply(params: Float32Array, gradient: Float32Array, ranges?: readonly ElementRange[]): void {
    this.#follow();
    this.#rule.apply(params, gradient, ranges);
  }

  state(): OptimizerState {
    this.#follow();
    return this.#rule.state();
  }

  load(state: OptimizerState): void {
    this.#rule.load(state);
    this.learningRate = this.#rule.learningRate;
  }

  #follow(): void {
    this.#rule.learningRate = this.learningRate;
  }
}

function isFlat<Flat extends Pick<Optimizer, 'apply'>>(optimizer: Flat | TensorflowOptimizer): optimizer is Flat {
  return hasMethod(optimizer, 'apply');
}

function isTensorflowOptimizer(optimizer: unknown): optimizer is TensorflowOptimizer {
  return ['applyGradients', 'getClassName', 'getConfig'].every((name) => hasMethod(optimizer, name));
}

function hasMethod(value: unknown, name: string): boolean {
  return typeof value === 'object' && value !== null && typeof Reflect.get(value, name) === 'function';
}

/**
 * Whether the optimizer's class defines the class name itself, and `applyGradients` is not
 * replaced. A subclass only inherits the name, and a page may replace `applyGradients`, for example
 * to clip gradients.
 */
function isUnchanged(optimizer: TensorflowOptimizer): boolean {
  return Object.hasOwn(optimizer.constructor, 'className') && !Object.hasOwn(optimizer, 'applyGradients');
}

/**
 * Returns the settings of an optimizer, with the epsilon that {@link optimizerOf} uses, so that
 * they can be compared between devices.
 */
export function optimizerSettingsOf(optimizer: TensorflowOptimizer): OptimizerConfig {
  const config = optimizer.getConfig();
  return config['epsilon'] === tf.backend().epsilon() ? { ...config, epsilon: TENSORFLOW_DEFAULT_EPSILON } : config;
}

function textOf(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value);
  return (value as { constructor?: { name: string } }).constructor?.name ?? 'An object';
}
