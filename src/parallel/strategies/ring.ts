/** `ring`: DistributedDataParallel. Each step costs 2K(n-1)/n bytes per rank, and 2(n-1) hops. */
import { DistributedDataParallel } from '../ddp.ts';
import type { Pass, PassOptions } from '../pass.ts';
import type { StatefulUpdateRule, StepReport, Strategy, StrategyOptions } from './strategy.ts';

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
    const { model, group, clock, checkGradients } = options;
    return new Ring(await DistributedDataParallel.create(model, group, { clock, checkGradients }), options);
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

  async step(pass: Pass, options: PassOptions): Promise<StepReport> {
    const { clock } = this.#options;
    const reduction = await this.#ddp.backward(pass, options);
    const reducedAt = clock.now();
    this.#ddp.step(this.#optimizer);
    return { ...reduction, update: clock.now() - reducedAt };
  }

  async warmUp(pass: Pass, options: PassOptions): Promise<void> {
    await this.#ddp.backward(pass, options);
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
