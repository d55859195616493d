/** An optimizer whose whole state is on every rank. All ranks compute the same update. */
import { checkSameOptimizer, type Optimizer, type OptimizerState } from '../../optim/optimizer.ts';
import type { DistributedDataParallel } from '../ddp/distributedDataParallel.ts';
import { clipGradNorm } from '../flat/clip.ts';
import type { ReplicaOptimizer, SavedOptimizerState, MissedStepRepeater } from '../zero/replicaOptimizer.ts';

export class WholeOptimizer implements ReplicaOptimizer, MissedStepRepeater {
  readonly isWhole = true;
  readonly repeater = this;
  readonly #ddp: DistributedDataParallel;
  readonly #optimizer: Optimizer;
  readonly #clipNorm: number | null;
  #lastGradient: Float32Array<ArrayBuffer> | null = null;

  /** @param clipNorm see `StrategyOptions`. */
  constructor(ddp: DistributedDataParallel, optimizer: Optimizer, clipNorm: number | null) {
    this.#ddp = ddp;
    this.#optimizer = optimizer;
    this.#clipNorm = clipNorm;
  }

  get equalState(): OptimizerState {
    return this.#optimizer.state();
  }

  get learningRate(): number {
    return this.#optimizer.learningRate;
  }

  get lastGradient(): Float32Array<ArrayBuffer> | null {
    return this.#lastGradient;
  }

  async update(learningRate: number | undefined, onapplied: () => void): Promise<number> {
    const { gradient } = this.#ddp;
    // The gradient is copied, because other ranks may need the gradient without clipping.
    this.#lastGradient ??= new Float32Array(gradient.length);
    this.#lastGradient.set(gradient);
    this.#apply(learningRate);
    onapplied();
    return 0;
  }

  repeat(gradient: Float32Array<ArrayBuffer>, learningRate: number): void {
    this.#ddp.gradient.set(gradient);
    this.#apply(learningRate);
    this.#lastGradient = gradient;
  }

  #apply(learningRate = this.learningRate): void {
    const { parameters, gradient } = this.#ddp;
    if (this.#clipNorm !== null) clipGradNorm(gradient, [{ start: 0, end: gradient.length }], this.#clipNorm);
    this.#optimizer.learningRate = learningRate;
    this.#optimizer.apply(parameters, gradient);
    this.#ddp.writeParameters();
  }

  snapshot(): SavedOptimizerState {
    const { name, scalars, slots } = this.#optimizer.state();
    return { optimizer: { name, scalars: scalars.slice(), slots: slots.map((slot) => slot.slice()) } };
  }

  check({ optimizer }: SavedOptimizerState): void {
    checkSameOptimizer(this.#optimizer.state(), optimizer);
  }

  load({ optimizer }: SavedOptimizerState): void {
    this.#optimizer.load(optimizer);
  }

  adopt(elected: OptimizerState): void {
    this.load({ optimizer: elected });
  }

  async attach(): Promise<void> {}

  async gatherWhole(): Promise<void> {}

  release(): void {}
}
