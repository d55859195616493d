/** The strategies by name; docs/STRATEGIES.md compares them. */
import type { Optimizer } from '../../optim/optimizer.ts';
import type { TrainingPlan } from '../../spec/plan.ts';
import { UsageError } from '../../util/errors.ts';
import { AsyncParameterServer } from './asyncParameterServer.ts';
import { Diloco } from './diloco.ts';
import { LocalSgd } from './localSgd.ts';
import { ParameterServer } from './parameterServer.ts';
import { Ddp } from './ddp.ts';
import type { ReplicaStrategy } from './replicaStrategy.ts';
import type { StrategyOptions } from './strategy.ts';

export { Ddp, type AttachedRank, type ElasticStrategy } from './ddp.ts';
export type { DdpState } from './ddpState.ts';
export type { StepReport } from './strategy.ts';

/**
 * The strategy of a plan, and its options. `data-parallel` is the parameter server with all ranks
 * in one page.
 */
export type StrategyChoice = Pick<
  TrainingPlan,
  'strategy' | 'syncEvery' | 'staleness' | 'codec' | 'errorFeedback' | 'shardOptimizer' | 'clipNorm'
>;

/** Number of steps between two exchanges. */
const LOCAL_SGD_STEPS = 8;
/**
 * Number of steps between two exchanges. The paper's 500 suit runs of 100 000 steps; runs here have
 * a few hundred steps. For measurements see docs/STRATEGIES.md.
 */
const DILOCO_STEPS = 20;
/**
 * Number of steps between two synchronizations of all ranks, for `async-parameter-server`. It is
 * small, because ranks can be compared and the model evaluated only when ranks are synchronized.
 */
const ASYNC_STEPS = 10;

/**
 * Creates a strategy in a group that has only this rank. Afterwards every rank attaches its
 * strategy, of the same kind, to the common group.
 */
export function createStrategy(
  { strategy, syncEvery, staleness, codec, errorFeedback, shardOptimizer, clipNorm }: StrategyChoice,
  options: StrategyOptions & { createOuterOptimizer: (size: number) => Optimizer },
): Promise<Ddp | ReplicaStrategy> {
  switch (strategy) {
    case 'ddp':
      return Ddp.create({ ...options, codec, errorFeedback, shardOptimizer, clipNorm });
    case 'parameter-server':
    case 'data-parallel':
      return ParameterServer.create(options);
    case 'async-parameter-server':
      return AsyncParameterServer.create({ ...options, staleness, syncEvery: syncEvery ?? ASYNC_STEPS });
    case 'local-sgd':
      return LocalSgd.create({ ...options, syncEvery: syncEvery ?? LOCAL_SGD_STEPS });
    case 'diloco':
      if (codec === 'powersgd' || codec === 'auto')
        throw new UsageError('DiLoCo supports only the codecs fp32, fp16 and int8. Choose one of them.');
      return Diloco.create({ ...options, syncEvery: syncEvery ?? DILOCO_STEPS, codec, errorFeedback });
    default:
      return strategy satisfies never;
  }
}
