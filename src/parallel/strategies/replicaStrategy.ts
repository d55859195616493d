/** What strategies share whose ranks compute their gradient as a whole, not in DDP's buckets. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Pass, PassOptions } from '../ddp/pass.ts';
import type { LocalGradient, Replica } from './replica.ts';
import type { Applied, StepReport, Strategy, StrategyOptions } from './strategy.ts';

/** What came of a step's gradient. */
export interface Learned extends Pick<StepReport, 'loss' | 'samples'> {
  /** Milliseconds that the rank spent on others: it computes nothing meanwhile. */
  communicate: number;
}

export abstract class ReplicaStrategy<Options extends StrategyOptions = StrategyOptions> implements Strategy {
  readonly elastic = null;
  protected readonly replica: Replica;
  protected readonly options: Options;
  #group: ProcessGroup;

  protected constructor(replica: Replica, options: Options) {
    this.replica = replica;
    this.options = options;
    this.#group = options.group;
  }

  protected get group(): ProcessGroup {
    return this.#group;
  }

  /**
   * Learns in `group` from now on: checks that its ranks have the same model, and gives every rank
   * rank 0's. Every rank must call it, once: what ranks learn by themselves is lost when they
   * change.
   *
   * @throws (rejects) MismatchError where models differ, and what collectives reject with.
   */
  async attach(group: ProcessGroup): Promise<void> {
    await this.replica.attach(group);
    this.#group = group;
    this.begin();
  }

  /** Called when all ranks of the {@link group} have the same model. */
  protected begin(): void {}

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

  async step(pass: Pass, options: PassOptions, onapplied: Applied): Promise<StepReport> {
    const { clock } = this.options;
    const local = await this.replica.compute(pass, options);
    const computedAt = clock.now();
    const { loss, samples, communicate } = await this.learn(local);
    this.replica.write();
    onapplied({ loss, samples });
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
