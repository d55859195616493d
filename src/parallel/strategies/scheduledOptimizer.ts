/**
 * An optimizer as a run drives it: its learning rate changes from step to step, and long gradients
 * are cut. Both belong to the moment in which a step is applied: a rate that is set earlier would
 * make states differ between ranks that were interrupted.
 */
import type { Optimizer, OptimizerState } from '../../optim/optimizer.ts';
import type { Range } from '../../util/range.ts';
import { clipGradNorm } from '../ddp/clip.ts';

export class ScheduledOptimizer implements Optimizer {
  readonly #rule: Optimizer;
  readonly #clipNorm: number | null;
  /** Of the next step. */
  #learningRate: number;
  /** A gradient that is cut: the one that was given stays as it is, as other ranks may need it. */
  #clipped: Float32Array | null = null;

  /** @param clipNorm longest gradient, see {@link clipGradNorm}; `null`: any. */
  constructor(rule: Optimizer, clipNorm: number | null) {
    this.#rule = rule;
    this.#clipNorm = clipNorm;
    this.#learningRate = rule.learningRate;
  }

  /** That of the last step; what is set is the next one's. */
  get learningRate(): number {
    return this.#rule.learningRate;
  }

  set learningRate(value: number) {
    this.#learningRate = value;
  }

  apply(params: Float32Array, gradient: Float32Array, ranges?: readonly Range[]): void {
    this.#rule.learningRate = this.#learningRate;
    this.#rule.apply(params, this.#clip(gradient, ranges), ranges);
  }

  state(): OptimizerState {
    return this.#rule.state();
  }

  load(state: OptimizerState): void {
    this.#rule.load(state);
    this.#learningRate = this.#rule.learningRate;
  }

  #clip(gradient: Float32Array, ranges: readonly Range[] = [{ start: 0, end: gradient.length }]): Float32Array {
    if (this.#clipNorm === null) return gradient;
    this.#clipped ??= new Float32Array(gradient.length);
    this.#clipped.set(gradient);
    clipGradNorm(this.#clipped, ranges, this.#clipNorm);
    return this.#clipped;
  }
}
