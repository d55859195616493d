/**
 * Adam and AdamW. AdamW applies weight decay to the parameters, not to the gradient.
 *
 * Sources: https://docs.pytorch.org/docs/stable/generated/torch.optim.Adam.html and
 * .../torch.optim.AdamW.html (the algorithm boxes, without amsgrad and maximize).
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
import type { Range } from '../util/range.ts';

/** Indices into `scalars`. */
const LEARNING_RATE = 0;
const WEIGHT_DECAY = 1;
const BETA1 = 2;
const BETA2 = 3;
const EPSILON = 4;
/**
 * beta1^t and beta2^t after t steps, as running products: `Math.pow` is not the same on every
 * machine.
 */
const BETA1_POWER = 5;
const BETA2_POWER = 6;

const DEFAULT_BETA1 = 0.9;
const DEFAULT_BETA2 = 0.999;
const DEFAULT_EPSILON = 1e-8;
const DEFAULT_WEIGHT_DECAY = { adam: 0, adamw: 0.01 } as const;

/** Two slots: the running means of the gradient and of its square. */
export class Adam implements Optimizer {
  readonly name: 'adam' | 'adamw';
  readonly size: number;
  readonly #state: OptimizerState;
  readonly #mean: Float32Array<ArrayBuffer>;
  readonly #square: Float32Array<ArrayBuffer>;

  constructor(name: 'adam' | 'adamw', options: OptimizerOptions, size: number) {
    const {
      learningRate,
      weightDecay = DEFAULT_WEIGHT_DECAY[name],
      beta1 = DEFAULT_BETA1,
      beta2 = DEFAULT_BETA2,
      epsilon = DEFAULT_EPSILON,
    } = options;
    checkSize(size);
    checkLearningRate(learningRate);
    checkRange('weightDecay', weightDecay, 0, Infinity);
    checkRange('beta1', beta1, 0, 1);
    checkRange('beta2', beta2, 0, 1);
    checkRange('epsilon', epsilon, 0, Infinity);
    this.name = name;
    this.size = size;
    this.#mean = new Float32Array(size);
    this.#square = new Float32Array(size);
    this.#state = {
      name,
      scalars: Float64Array.of(learningRate, weightDecay, beta1, beta2, epsilon, 1, 1),
      slots: [this.#mean, this.#square],
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
    const mean = this.#mean;
    const square = this.#square;
    const beta1 = scalars[BETA1]!;
    const beta2 = scalars[BETA2]!;
    const epsilon = scalars[EPSILON]!;
    const beta1Power = scalars[BETA1_POWER]! * beta1;
    const beta2Power = scalars[BETA2_POWER]! * beta2;
    const rate = scalars[LEARNING_RATE]!;
    const decoupled = this.name === 'adamw';
    const keep = decoupled ? 1 - rate * scalars[WEIGHT_DECAY]! : 1;
    const decay = decoupled ? 0 : scalars[WEIGHT_DECAY]!;
    const take1 = 1 - beta1;
    const take2 = 1 - beta2;
    // The bias correction of `square` is applied outside the loop, as in section 2 of the paper
    // (Kingma and Ba, "Adam", 2015). torch divides each root by the correction; that division would
    // be the slowest operation in this loop.
    const correction2 = Math.sqrt(1 - beta2Power);
    const stepSize = (rate * correction2) / (1 - beta1Power);
    const scaledEpsilon = epsilon * correction2;
    for (const { start, end } of updated) {
      for (let i = start; i < end; i++) {
        const p = params[i]!;
        // `0 * p` is not added, because it is NaN if the parameter is infinite.
        const g = decay === 0 ? gradient[i]! : gradient[i]! + decay * p;
        const m = beta1 * mean[i]! + take1 * g;
        const v = beta2 * square[i]! + take2 * g * g;
        mean[i] = m;
        square[i] = v;
        params[i] = p * keep - (stepSize * m) / (Math.sqrt(v) + scaledEpsilon);
      }
    }
    scalars[BETA1_POWER] = beta1Power;
    scalars[BETA2_POWER] = beta2Power;
  }

  state(): OptimizerState {
    return this.#state;
  }

  load(state: OptimizerState): void {
    copyState(this.#state, state);
  }
}
