/** What strategies share whose ranks learn by themselves for some steps and then exchange what they have learned. */
import type { Pass, PassOptions } from '../pass.ts';
import { Replica } from '../replica.ts';
import type { StatefulUpdateRule, StepReport, Strategy, StrategyOptions } from './strategy.ts';

export abstract class LocalSteps implements Strategy {
  readonly reportsAllRanks = false;
  protected readonly replica: Replica;
  protected readonly options: StrategyOptions & { syncEvery: number };
  readonly #optimizer: StatefulUpdateRule;
  /** Steps since the last exchange. */
  #steps = 0;

  protected constructor(replica: Replica, options: StrategyOptions & { syncEvery: number }) {
    this.replica = replica;
    this.options = options;
    this.#optimizer = options.createOptimizer(replica.size);
  }

  /** Makes all ranks' parameters the same. */
  protected abstract exchange(): Promise<void>;
  abstract state(): readonly ArrayBufferView[];

  get size(): number {
    return this.replica.size;
  }

  get gradientBytes(): number {
    return this.replica.parameters.byteLength;
  }

  get bucketBytes(): readonly number[] {
    return [this.gradientBytes];
  }

  get isSynchronized(): boolean {
    return this.#steps === 0;
  }

  async step(pass: Pass, options: PassOptions): Promise<StepReport> {
    const { clock, syncEvery } = this.options;
    const { replica } = this;
    const { lossSum, samples, compute } = await replica.compute(pass, options);
    const computedAt = clock.now();
    Replica.average(replica.sums);
    if (samples > 0) this.#optimizer.apply(replica.parameters, replica.gradient);
    this.#steps += 1;
    const updatedAt = clock.now();
    if (this.#steps === syncEvery) await this.#exchange();
    const exchangedAt = clock.now();
    replica.write();
    const communicate = exchangedAt - updatedAt;
    return {
      ...{ loss: samples > 0 ? lossSum / samples : 0, samples },
      ...{ traces: [], compute, readback: 0, communicate, exposed: communicate },
      update: updatedAt - computedAt + clock.now() - exchangedAt,
    };
  }

  async warmUp(pass: Pass, options: PassOptions): Promise<void> {
    await this.replica.compute(pass, options);
  }

  async synchronize(): Promise<void> {
    if (this.isSynchronized) return;
    await this.#exchange();
    this.replica.write();
  }

  dispose(): void {
    this.replica.dispose();
  }

  async #exchange(): Promise<void> {
    await this.exchange();
    await this.replica.shareBuffers();
    this.#steps = 0;
  }
}
