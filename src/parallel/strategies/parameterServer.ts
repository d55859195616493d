/**
 * `parameter-server`: rank 0 gathers every rank's gradient, updates the parameters, and sends them
 * to all. It learns as ddp does. In each step rank 0 receives and sends K(n-1) bytes, and every
 * other rank K bytes. A step has two hops for any n (K and n: see `strategy.ts`).
 *
 * Li et al., "Scaling Distributed Machine Learning with the Parameter Server" (OSDI 2014); here the
 * server is synchronous, and there is only one.
 */
import type { Optimizer } from '../../optim/optimizer.ts';
import { ModelReplica, type LocalPassReport } from './replica.ts';
import type { ReplicaUpdateResult } from './replicaStrategy.ts';
import { ServerStrategy } from './serverStrategy.ts';
import type { StrategyOptions } from './strategy.ts';

export class ParameterServer extends ServerStrategy {
  readonly reportsAllRanks = true;
  readonly isSynchronized = true;
  /** The parameters, followed by the step's mean loss and samples, as rank 0 sends them. */
  readonly #answer: Float32Array;
  /** The optimizer, only on the server. The other ranks have no optimizer state. */
  #optimizer: Optimizer | null = null;

  private constructor(replica: ModelReplica, options: StrategyOptions) {
    super(replica, options);
    this.#answer = new Float32Array(replica.sums.length);
  }

  static async create(options: StrategyOptions): Promise<ParameterServer> {
    return new ParameterServer(await ModelReplica.create(options), options);
  }

  protected override begin(): void {
    this.#optimizer = this.group.rank === 0 ? this.options.createOptimizer(this.replica.size) : null;
  }

  protected async update({ samples }: LocalPassReport, learningRate?: number): Promise<ReplicaUpdateResult> {
    const { clock } = this.options;
    const { group, replica } = this;
    const server = group.ranks[0]!;
    const startedAt = clock.now();
    await group.reduce(replica.sums, server, { algorithm: 'direct' });
    const answer = this.#answer;
    if (this.#optimizer) {
      const mean = replica.learn(this.#optimizer, learningRate);
      answer.set(replica.parameters);
      answer.set([mean.loss, mean.samples], replica.size);
    }
    await group.broadcast(answer, server, { algorithm: 'direct' });
    await replica.shareBuffers(samples > 0);
    const communicate = clock.now() - startedAt;
    replica.parameters.set(answer.subarray(0, replica.size));
    return { loss: answer[replica.size]!, samples: answer[replica.size + 1]!, communicate };
  }

  async synchronize(): Promise<void> {}

  state(): readonly ArrayBufferView[] {
    return [this.replica.parameters];
  }
}
