/**
 * An optimizer with a learning rate schedule and gradient clipping. Both take effect only when a
 * step is applied: an earlier change of the rate would make the states of interrupted ranks differ.
 */
import type { Optimizer, OptimizerState } from '../../optim/optimizer.ts';
import type { Range } from '../../util/range.ts';
import { clipGradNorm } from './clip.ts';

export class ScheduledOptimizer implements Optimizer {
  readonly #optimizer: Optimizer;
  readonly #clipNorm: number | null;
  /** Learning rate of the next step. */
  #learningRate: number;
  /**
   * Clipped copy of the gradient. The gradient itself is not changed, because other ranks may need
   * it.
   */
  #clipped: Float32Array | null = null;

  /** @param clipNorm largest norm of a gradient, see {@link clipGradNorm}; `null`: no limit. */
  constructor(optimizer: Optimizer, clipNorm: number | null) {
    this.#optimizer = optimizer;
    this.#clipNorm = clipNorm;
    this.#learningRate = optimizer.learningRate;
  }

  /** The getter returns the rate of the last step. The setter sets the rate of the next step. */
  get learningRate(): number {
    return this.#optimizer.learningRate;
  }

  set learningRate(value: number) {
    this.#learningRate = value;
  }

  apply(params: Float32Array, gradient: Float32Array, ranges?: readonly Range[]): void {
    this.#optimizer.learningRate = this.#learningRate;
    this.#optimizer.apply(params, this.#clip(gradient, ranges), ranges);
  }

  state(): OptimizerState {
    return this.#optimizer.state();
  }

  load(state: OptimizerState): void {
    this.#optimizer.load(state);
    this.#learningRate = this.#optimizer.learningRate;
  }

  #clip(gradient: Float32Array, ranges: readonly Range[] = [{ start: 0, end: gradient.length }]): Float32Array {
    if (this.#clipNorm === null) return gradient;
    this.#clipped ??= new Float32Array(gradient.length);
    this.#clipped.set(gradient);
    clipGradNorm(this.#clipped, ranges, this.#clipNorm);
    return this.#clipped;
  }
}
