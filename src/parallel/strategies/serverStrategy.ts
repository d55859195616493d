/** Base of strategies with a server. They cannot continue in another group. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { ModelReplica } from './replica.ts';
import { ReplicaStrategy } from './replicaStrategy.ts';
import type { Strategy, StrategyOptions } from './strategy.ts';

export abstract class ServerStrategy<Options extends StrategyOptions = StrategyOptions>
  extends ReplicaStrategy<Options>
  implements Strategy
{
  readonly elastic = null;
  #group: ProcessGroup;

  protected constructor(replica: ModelReplica, options: Options) {
    super(replica, options);
    this.#group = options.group;
  }

  abstract get reportsAllRanks(): boolean;

  protected get group(): ProcessGroup {
    return this.#group;
  }

  /**
   * Trains in `group` from now on: checks that its ranks have the same model, and broadcasts rank
   * 0's model, which overwrites the models of the other ranks. Every rank must call it once.
   *
   * @throws (rejects) MismatchError if models differ; errors of collectives.
   */
  async attach(group: ProcessGroup): Promise<void> {
    await this.replica.attach(group);
    this.#group = group;
    this.begin();
  }

  /** Called when all ranks of the {@link group} have the same model. */
  protected abstract begin(): void;
}
