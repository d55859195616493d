/** Base of strategies whose ranks compute their gradient as a whole, not in DDP's buckets. */
import type { Pass, PassOptions } from '../backward/pass.ts';
import type { LocalPassReport, ModelReplica } from './replica.ts';
import type { OnStepApplied, StepOptions, StepReport, StrategyOptions } from './strategy.ts';

export interface ReplicaUpdateResult extends Pick<StepReport, 'loss' | 'samples'> {
  /**
   * Duration of the exchange in milliseconds. It includes computation that is part of the exchange,
   * such as a server's update.
   */
  communicate: number;
}

export abstract class ReplicaStrategy<Options extends StrategyOptions = StrategyOptions> {
  readonly accumulator = null;
  protected readonly replica: ModelReplica;
  protected readonly options: Options;

  protected constructor(replica: ModelReplica, options: Options) {
    this.replica = replica;
    this.options = options;
  }

  abstract get isSynchronized(): boolean;
  abstract synchronize(): Promise<void>;
  abstract state(): readonly ArrayBufferView[];

  /**
   * Updates the replica's parameters with its {@link ModelReplica.sums}, together with the other
   * ranks or alone.
   */
  protected abstract update(local: LocalPassReport, learningRate: number | undefined): Promise<ReplicaUpdateResult>;

  /** Called when a step is applied. */
  protected stepped(): void {}

  get size(): number {
    return this.replica.size;
  }

  get gradientBytes(): number {
    return this.replica.sums.byteLength;
  }

  get bucketBytes(): readonly number[] {
    return [this.gradientBytes];
  }

  async step(pass: Pass, options: StepOptions, onapplied: OnStepApplied): Promise<StepReport> {
    const { clock } = this.options;
    const local = await this.replica.compute(pass, options);
    const computedAt = clock.now();
    const { loss, samples, communicate } = await this.update(local, options.learningRate);
    this.replica.write();
    onapplied({ loss, samples });
    this.stepped();
    return {
      loss,
      samples,
      traces: [],
      compute: local.compute,
      readback: 0,
      communicate,
      exposed: communicate,
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
