/**
 * Stochastic gradient descent: plain, with momentum, and with Nesterov momentum.
 *
 * Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.SGD.html (the algorithm box).
 */
import {
  checkApply,
  checkLearningRate,
  checkRange,
  checkSize,
  copyState,
  type Optimizer,
  type OptimizerOptions,
  type OptimizerState,
} from './optimizer.ts';
import { UsageError } from '../util/errors.ts';
import type { Range } from '../util/range.ts';

/** Indices into `scalars`; plain SGD has the first two. */
const LEARNING_RATE = 0;
const WEIGHT_DECAY = 1;
const MOMENTUM = 2;
const DAMPENING = 3;
/** 0 or 1. */
const NESTEROV = 4;
/**
 * Number of steps done. In the first step the velocity is the whole gradient, for any dampening.
 */
const STEP = 5;

const DEFAULT_MOMENTUM = 0.9;

/** `params -= learningRate * (gradient + weightDecay * params)`. No slots. */
export class Sgd implements Optimizer {
  readonly name = 'sgd';
  readonly size: number;
  readonly #state: OptimizerState;

  constructor(options: OptimizerOptions, size: number) {
    const { learningRate, weightDecay = 0 } = options;
    checkSize(size);
    checkLearningRate(learningRate);
    checkRange('weightDecay', weightDecay, 0, Infinity);
    this.size = size;
    this.#state = { name: this.name, scalars: Float64Array.of(learningRate, weightDecay), slots: [] };
  }

  get learningRate(): number {
    return this.#state.scalars[LEARNING_RATE]!;
  }

  set learningRate(value: number) {
    checkLearningRate(value);
    this.#state.scalars[LEARNING_RATE] = value;
  }

  apply(params: Float32Array, gradient: Float32Array, ranges?: readonly Range[]): void {
    const updated = checkApply(this.size, params, gradient, ranges);
    const rate = this.#state.scalars[LEARNING_RATE]!;
    const decay = this.#state.scalars[WEIGHT_DECAY]!;
    for (const { start, end } of updated) {
      for (let i = start; i < end; i++) {
        const p = params[i]!;
        // `0 * p` is not added, because it is NaN if the parameter is infinite.
        const g = decay === 0 ? gradient[i]! : gradient[i]! + decay * p;
        params[i] = p - rate * g;
      }
    }
  }

  state(): OptimizerState {
    return this.#state;
  }

  load(state: OptimizerState): void {
    copyState(this.#state, state);
  }
}

/**
 * `velocity = momentum * velocity + (1 - dampening) * gradient; params -= learningRate * velocity`.
 * With `nesterov` (the optimizer or the option), `gradient + momentum * velocity` replaces the
 * velocity in the second formula: Sutskever et al., "On the importance of initialization and
 * momentum in deep learning" (ICML 2013), in torch's form. DiLoCo's outer optimizer is `nesterov`.
 * One slot: the velocity.
 */
export class Momentum implements Optimizer {
  readonly name: 'momentum' | 'nesterov';
  readonly size: number;
  readonly #state: OptimizerState;
  readonly #velocity: Float32Array<ArrayBuffer>;

  constructor(name: 'momentum' | 'nesterov', options: OptimizerOptions, size: number) {
    const { learningRate, weightDecay = 0, momentum = DEFAULT_MOMENTUM, dampening = 0 } = options;
    const nesterov = name === 'nesterov' || options.nesterov === true;
    checkSize(size);
    checkLearningRate(learningRate);
    checkRange('weightDecay', weightDecay, 0, Infinity);
    checkRange('momentum', momentum, 0, 1);
    checkRange('dampening', dampening, 0, Infinity);
    if (nesterov && (momentum === 0 || dampening !== 0)) {
      throw new UsageError(
        'nesterov needs a momentum above 0 and a dampening of 0. Change these settings, or leave nesterov out.',
      );
    }
    this.name = name;
    this.size = size;
    this.#velocity = new Float32Array(size);
    this.#state = {
      name,
      scalars: Float64Array.of(learningRate, weightDecay, momentum, dampening, nesterov ? 1 : 0, 0),
      slots: [this.#velocity],
    };
  }

  get learningRate(): number {
    return this.#state.scalars[LEARNING_RATE]!;
  }

  set learningRate(value: number) {
    checkLearningRate(value);
    this.#state.scalars[LEARNING_RATE] = value;
  }

  apply(params: Float32Array, gradient: Float32Array, ranges?: readonly Range[]): void {
    const updated = checkApply(this.size, params, gradient, ranges);
    const { scalars } = this.#state;
    const velocity = this.#velocity;
    const rate = scalars[LEARNING_RATE]!;
    const decay = scalars[WEIGHT_DECAY]!;
    const momentum = scalars[MOMENTUM]!;
    const take = scalars[STEP] === 0 ? 1 : 1 - scalars[DAMPENING]!;
    const nesterov = scalars[NESTEROV] === 1;
    for (const { start, end } of updated) {
      for (let i = start; i < end; i++) {
        const p = params[i]!;
        const g = decay === 0 ? gradient[i]! : gradient[i]! + decay * p;
        const moved = momentum * velocity[i]! + take * g;
        velocity[i] = moved;
        params[i] = p - rate * (nesterov ? g + momentum * moved : moved);
      }
    }
    scalars[STEP]! += 1;
  }

  state(): OptimizerState {
    return this.#state;
  }

  load(state: OptimizerState): void {
    copyState(this.#state, state);
  }
}
