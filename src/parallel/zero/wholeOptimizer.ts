/** An optimizer that every rank has as a whole. All ranks compute the same update. */
import { checkState, type Optimizer, type OptimizerState } from '../../optim/optimizer.ts';
import type { DistributedDataParallel } from '../ddp/distributedDataParallel.ts';
import { optimizerLayouts } from '../flat/optimizerLayout.ts';
import type { ReplicaOptimizer, SavedOptimizer, StepRepeater } from './replicaOptimizer.ts';

export class WholeOptimizer implements ReplicaOptimizer, StepRepeater {
  readonly isWhole = true;
  readonly repeater = this;
  readonly #ddp: DistributedDataParallel;
  readonly #optimizer: Optimizer;
  #lastGradient: Float32Array<ArrayBuffer> | null = null;

  constructor(ddp: DistributedDataParallel, optimizer: Optimizer) {
    this.#ddp = ddp;
    this.#optimizer = optimizer;
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

  async update(onapplied: () => void): Promise<number> {
    const { gradient } = this.#ddp;
    this.#ddp.step(this.#optimizer);
    this.#lastGradient ??= new Float32Array(gradient.length);
    this.#lastGradient.set(gradient);
    onapplied();
    return 0;
  }

  repeat(gradient: Float32Array<ArrayBuffer>, learningRate: number): void {
    this.#optimizer.learningRate = learningRate;
    this.#optimizer.apply(this.#ddp.parameters, gradient);
    this.#ddp.writeParameters();
    this.#lastGradient = gradient;
  }

  snapshot(): SavedOptimizer {
    const { name, scalars, slots } = this.#optimizer.state();
    return { optimizer: { name, scalars: scalars.slice(), slots: slots.map((slot) => slot.slice()) } };
  }

  check({ optimizer }: SavedOptimizer): void {
    checkState(this.#optimizer.state(), optimizer);
  }

  load({ optimizer }: SavedOptimizer): void {
    this.#optimizer.load(optimizer);
    optimizerLayouts.set(this.#optimizer, this.#ddp.layout);
  }

  adopt(elected: OptimizerState): void {
    this.load({ optimizer: elected });
  }

  async attach(): Promise<void> {}

  async gatherWhole(): Promise<void> {}

  release(): void {}
}
