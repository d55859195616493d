/** Base of strategies whose ranks train alone for some steps and then exchange the result. */
import type { CodecName } from '../../collectives/codecs.ts';
import type { Optimizer } from '../../optim/optimizer.ts';
import { ErrorFeedback } from '../ddp/errorFeedback.ts';
import { Replica, type LocalGradient } from './replica.ts';
import { ReplicaStrategy, type UpdateResult } from './replicaStrategy.ts';
import type { StrategyOptions } from './strategy.ts';

export interface LocalStepsOptions extends StrategyOptions {
  syncEvery: number;
  /** Codec of the averaged values. */
  codec: CodecName;
  errorFeedback: boolean;
}

export abstract class LocalSteps extends ReplicaStrategy<LocalStepsOptions> {
  readonly reportsAllRanks = false;
  readonly #optimizer: Optimizer;
  readonly #feedback: ErrorFeedback | null;
  /** Number of steps since the last exchange, and number of this rank's samples in these steps. */
  #steps = 0;
  #samples = 0;

  protected constructor(replica: Replica, options: LocalStepsOptions) {
    super(replica, options);
    const { codec, errorFeedback } = options;
    this.#feedback = codec !== 'fp32' && errorFeedback ? new ErrorFeedback(replica.size) : null;
    this.#optimizer = options.createOptimizer(replica.size);
  }

  /** Makes all ranks' parameters equal. */
  protected abstract exchange(): Promise<void>;

  get isSynchronized(): boolean {
    return this.#steps === 0;
  }

  async synchronize(): Promise<void> {
    if (this.isSynchronized) return;
    await this.#exchange();
    this.replica.write();
  }

  protected async update({ loss, samples }: LocalGradient): Promise<UpdateResult> {
    const { clock, syncEvery } = this.options;
    const { replica } = this;
    Replica.average(replica.sums);
    if (samples > 0) this.#optimizer.apply(replica.parameters, replica.gradient);
    this.#steps += 1;
    this.#samples += samples;
    const updatedAt = clock.now();
    if (this.#steps === syncEvery) await this.#exchange();
    return { loss, samples, communicate: clock.now() - updatedAt };
  }

  /**
   * Averages `values`, which has one value for each element of the parameters, over all ranks.
   * Ranks are weighted by their samples since the last exchange, because a rank without samples has
   * learned nothing. This is federated averaging (McMahan et al., "Communication-Efficient Learning
   * of Deep Networks from Decentralized Data", AISTATS 2017).
   */
  protected async average(values: Float32Array): Promise<void> {
    const { codec } = this.options;
    if (codec === 'fp32') await this.#averageSums(values);
    else await this.#averageEncoded(values, codec);
  }

  async #averageSums(values: Float32Array): Promise<void> {
    // This step's gradient is applied, so its array is free.
    const { sums, gradient, size } = this.replica;
    for (let i = 0; i < size; i++) sums[i] = values[i]! * this.#samples;
    sums.set([0, this.#samples], size);
    await this.group.allReduce(sums);
    if (Replica.average(sums).samples > 0) values.set(gradient);
  }

  /** Sums the weights first, because a codec needs averages; see `ErrorFeedback`. */
  async #averageEncoded(values: Float32Array, codec: CodecName): Promise<void> {
    const [total] = await this.group.allReduce(Float32Array.of(this.#samples));
    if (total === 0) return;
    const { gradient } = this.replica;
    const weight = this.#samples / total!;
    for (let i = 0; i < gradient.length; i++) gradient[i] = values[i]! * weight;
    const residual = this.#feedback?.apply(gradient) ?? null;
    await this.group.allReduce(gradient, { codec, residual });
    this.#feedback?.commit();
    values.set(gradient);
  }

  async #exchange(): Promise<void> {
    await this.exchange();
    await this.replica.shareBuffers();
    this.#steps = 0;
    this.#samples = 0;
  }
}
