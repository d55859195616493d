/** `ring`: DistributedDataParallel. Each step costs 2K(n-1)/n bytes per rank, and 2(n-1) hops. */
import { DistributedDataParallel } from '../ddp.ts';
import type { Scalar } from '../flatten.ts';
import type { StatefulUpdateRule, StepOptions, StepReport, Strategy, StrategyOptions } from './strategy.ts';

export class Ring implements Strategy {
  readonly reportsAllRanks = true;
  readonly isSynchronized = true;
  readonly #ddp: DistributedDataParallel;
  readonly #optimizer: StatefulUpdateRule;
  readonly #options: StrategyOptions;

  private constructor(ddp: DistributedDataParallel, options: StrategyOptions) {
    this.#ddp = ddp;
    this.#options = options;
    this.#optimizer = options.createOptimizer(ddp.layout.size);
  }

  static async create(options: StrategyOptions): Promise<Ring> {
    const { variables, group, clock, checkGradients } = options;
    return new Ring(await DistributedDataParallel.create(variables, group, { clock, checkGradients }), options);
  }

  get size(): number {
    return this.#ddp.layout.size;
  }

  get gradientBytes(): number {
    return this.#ddp.gradientBytes;
  }

  get bucketBytes(): readonly number[] {
    return this.#ddp.bucketBytes;
  }

  async step(loss: () => Scalar, options: StepOptions): Promise<StepReport> {
    const { clock } = this.#options;
    const reduction = await this.#ddp.backward(loss, options);
    const reducedAt = clock.now();
    this.#ddp.step(this.#optimizer);
    return { ...reduction, update: clock.now() - reducedAt };
  }

  async warmUp(loss: () => Scalar, options: StepOptions): Promise<void> {
    await this.#ddp.backward(loss, options);
  }

  async synchronize(): Promise<void> {}

  state(): readonly ArrayBufferView[] {
    const { scalars, slots } = this.#optimizer.state();
    return [this.#ddp.parameters, scalars, ...slots];
  }

  dispose(): void {
    this.#ddp.dispose();
  }
}
