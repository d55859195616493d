/** The strategies by name; docs/STRATEGIES.md compares them. */
import { Momentum, Sgd } from '../../optim/sgd.ts';
import { COLLECTIVE_CODECS, isCollectiveCodec } from '../../spec/codecs.ts';
import type { TrainingPlan } from '../../spec/plan.ts';
import { UsageError } from '../../util/errors.ts';
import { AsyncParameterServer } from './asyncParameterServer.ts';
import type { Streaming } from '../localSteps/fragments.ts';
import { LocalSteps } from '../localSteps/localSteps.ts';
import { DenseMean, NO_MEAN } from '../localSteps/outerMean.ts';
import { DILOCO_STEPS, LOCAL_SGD_STEPS, SPARSE_STEPS, STREAMING } from '../localSteps/periods.ts';
import { SparseMean } from '../sparse/sparseMean.ts';
import type { ServerStrategy } from './serverStrategy.ts';
import { ParameterServer } from './parameterServer.ts';
import { Ddp } from './ddp.ts';
import type { StrategyOptions } from './strategy.ts';

export { Ddp } from './ddp.ts';
export type { AttachedRank, ElasticStrategy } from './elasticStrategy.ts';
export type { DdpState } from './ddpState.ts';
export type { StepReport } from './strategy.ts';

/** The strategy of a plan, and its options. */
export type StrategyChoice = Pick<
  TrainingPlan,
  | 'strategy'
  | 'measure'
  | 'syncEvery'
  | 'outerLearningRate'
  | 'staleness'
  | 'codec'
  | 'errorFeedback'
  | 'shardOptimizer'
  | 'clipNorm'
>;

/**
 * Number of steps between two synchronizations of all ranks, for `async-parameter-server`. It is
 * small, because ranks can be compared and the model evaluated only when ranks are synchronized.
 */
const ASYNC_STEPS = 10;
/** Learning rate of outer optimizers, and momentum where they have it. */
const OUTER = {
  /** The whole mean is applied, so that parameters are averaged. */
  average: { learningRate: 1 },
  /** The DiLoCo paper recommends these values. */
  diloco: { learningRate: 0.7, momentum: 0.9 },
  /** Measured, see docs/STRATEGIES.md. */
  sparse: { learningRate: 3 },
};

/**
 * Creates a strategy in a group that has only this rank. Afterwards every rank attaches its
 * strategy, of the same kind, to the common group.
 */
export function createStrategy(
  {
    strategy,
    measure,
    syncEvery,
    outerLearningRate,
    staleness,
    codec,
    errorFeedback,
    shardOptimizer,
    clipNorm,
  }: StrategyChoice,
  options: StrategyOptions,
): Promise<Ddp | LocalSteps | ServerStrategy> {
  const outer = outerLearningRate === null ? {} : { learningRate: outerLearningRate };
  /** DiLoCo and its variants. */
  const diloco = (steps: number, streaming?: Streaming): Promise<LocalSteps> => {
    if (!isCollectiveCodec(codec)) {
      throw new UsageError(`${strategy} supports only the codecs ${COLLECTIVE_CODECS.join(', ')}. Choose one of them.`);
    }
    return LocalSteps.create({
      ...options,
      codec,
      syncEvery: steps,
      createOuterOptimizer: (size) => new Momentum('nesterov', { ...OUTER.diloco, ...outer }, size),
      createMean: (size) => new DenseMean(size, { codec, errorFeedback }),
      ...(streaming && { streaming }),
    });
  };
  // The run ends before an exchange, and its end does not change the parameters.
  if (measure === 'methods') {
    return LocalSteps.create({
      ...options,
      codec: 'fp32',
      syncEvery: Number.MAX_SAFE_INTEGER,
      createOuterOptimizer: (size) => new Sgd(OUTER.average, size),
      createMean: () => NO_MEAN,
    });
  }
  switch (strategy) {
    case 'ddp':
      return Ddp.create({ ...options, codec, errorFeedback, shardOptimizer, clipNorm });
    case 'parameter-server':
      return ParameterServer.create(options);
    case 'async-parameter-server':
      return AsyncParameterServer.create({ ...options, staleness, syncEvery: syncEvery ?? ASYNC_STEPS });
    case 'local-sgd':
      return LocalSteps.create({
        ...options,
        // Rounding the parameters at every exchange would undo small changes.
        codec: 'fp32',
        syncEvery: syncEvery ?? LOCAL_SGD_STEPS,
        createOuterOptimizer: (size) => new Sgd(OUTER.average, size),
        createMean: (size) => new DenseMean(size, { codec: 'fp32', errorFeedback: false }),
      });
    case 'diloco':
      return diloco(syncEvery ?? DILOCO_STEPS);
    case 'streaming-diloco':
      return diloco(syncEvery ?? DILOCO_STEPS, streamingWithin(syncEvery ?? DILOCO_STEPS));
    case 'sparseloco':
      return LocalSteps.create({
        ...options,
        codec: 'fp32',
        syncEvery: syncEvery ?? SPARSE_STEPS,
        createOuterOptimizer: (size) => new Sgd({ ...OUTER.sparse, ...outer }, size),
        createMean: (size) => new SparseMean(size),
      });
    default:
      return strategy satisfies never;
  }
}

/**
 * Returns {@link STREAMING}, with fewer fragments if an exchange would begin before the last has
 * ended.
 */
function streamingWithin(syncEvery: number): Streaming {
  const delay = Math.min(STREAMING.delay, syncEvery - 1);
  return { ...STREAMING, delay, fragments: Math.min(STREAMING.fragments, Math.floor(syncEvery / (delay + 1))) };
}
