/** What strategies share whose ranks compute their gradient as a whole, not in DDP's buckets. */
import type { Pass, PassOptions } from '../pass.ts';
import type { LocalGradient, Replica } from '../replica.ts';
import type { StepReport, Strategy, StrategyOptions } from './strategy.ts';

/** What came of a step's gradient. */
export interface Learned extends Pick<StepReport, 'loss' | 'samples'> {
  /** Milliseconds that the rank spent on others: it computes nothing meanwhile. */
  communicate: number;
}

export abstract class ReplicaStrategy<Options extends StrategyOptions = StrategyOptions> implements Strategy {
  protected readonly replica: Replica;
  protected readonly options: Options;

  protected constructor(replica: Replica, options: Options) {
    this.replica = replica;
    this.options = options;
  }

  abstract get reportsAllRanks(): boolean;
  abstract get isSynchronized(): boolean;
  abstract synchronize(): Promise<void>;
  abstract state(): readonly ArrayBufferView[];

  /** Changes the replica's parameters by its {@link Replica.sums}, with the others or alone. */
  protected abstract learn(local: LocalGradient): Promise<Learned>;

  get size(): number {
    return this.replica.size;
  }

  get gradientBytes(): number {
    return this.replica.sums.byteLength;
  }

  get bucketBytes(): readonly number[] {
    return [this.gradientBytes];
  }

  async step(pass: Pass, options: PassOptions): Promise<StepReport> {
    const { clock } = this.options;
    const local = await this.replica.compute(pass, options);
    const computedAt = clock.now();
    const { loss, samples, communicate } = await this.learn(local);
    this.replica.write();
    return {
      ...{ loss, samples, traces: [] },
      ...{ compute: local.compute, readback: 0, communicate, exposed: communicate },
      update: clock.now() - computedAt - communicate,
    };
  }

  async warmUp(pass: Pass, options: PassOptions): Promise<void> {
    await this.replica.compute(pass, options);
  }

  dispose(): void {
    this.replica.dispose();
  }
}
