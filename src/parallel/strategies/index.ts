/** The strategies by name; docs/STRATEGIES.md compares them. */
import { createOptimizer } from '../../optim/index.ts';
import { isCollectiveCodec } from '../../spec/codecs.ts';
import type { CodecOptions, TrainingPlan } from '../../spec/plan.ts';
import {
  isReplicaStrategyName,
  STRATEGIES,
  type ReplicaStrategyName,
  type StrategyFacts,
  type FragmentExchangeFacts,
} from '../../spec/strategies.ts';
import { UsageError } from '../../util/errors.ts';
import { AsyncParameterServer } from './asyncParameterServer.ts';
import { LocalSteps } from './localSteps.ts';
import { DenseOuterMean, ZERO_OUTER_STEP_MEAN } from './outerMean.ts';
import { SparseOuterMean } from './sparseMean.ts';
import type { ServerStrategy } from './serverStrategy.ts';
import { ParameterServer } from './parameterServer.ts';
import { DdpStrategy } from './ddp.ts';
import type { StrategyOptions } from './strategy.ts';

export { DdpStrategy } from './ddp.ts';
export type { EnteredRankState, ElasticStrategy } from './elasticStrategy.ts';
export type { DdpState } from '../recovery/ddpState.ts';
export type { StepReport } from './strategy.ts';

export type StrategyChoice = CodecOptions &
  Pick<
    TrainingPlan,
    'strategy' | 'measure' | 'syncEvery' | 'outerLearningRate' | 'staleness' | 'codec' | 'shardOptimizer' | 'clipNorm'
  >;

type Create = (choice: StrategyChoice, options: StrategyOptions) => Promise<DdpStrategy | LocalSteps | ServerStrategy>;

const CREATE: Record<ReplicaStrategyName, Create> = {
  ddp: (choice, options) => DdpStrategy.create({ ...choice, ...options }),
  'parameter-server': (_, options) => ParameterServer.create(options),
  'async-parameter-server': ({ strategy, staleness, syncEvery }, options) =>
    AsyncParameterServer.create({ ...options, staleness, syncEvery: syncEvery ?? STRATEGIES[strategy].syncEvery! }),
  'local-sgd': createLocalSteps,
  diloco: createLocalSteps,
  'streaming-diloco': createLocalSteps,
  sparseloco: createLocalSteps,
};

/**
 * Creates a strategy in a group that has only this rank. Afterwards every rank attaches its
 * strategy, of the same kind, to the common group.
 */
export function createStrategy(
  choice: StrategyChoice,
  environment: Omit<StrategyOptions, 'clipNorm'>,
): ReturnType<Create> {
  const { strategy } = choice;
  if (!isReplicaStrategyName(strategy)) throw new UsageError(`With ${strategy}, ranks have stages. Use PipelineStage.`);
  const options = { ...environment, clipNorm: choice.clipNorm };
  if (choice.measure !== 'methods') return CREATE[strategy](choice, options);
  // The run ends before the first exchange, and its end does not change the shared parameters.
  return LocalSteps.create({
    ...options,
    codec: 'fp32',
    syncEvery: Number.MAX_SAFE_INTEGER,
    createOuterOptimizer: (size) => createOptimizer('sgd', { learningRate: 1 }, size),
    createMean: () => ZERO_OUTER_STEP_MEAN,
  });
}

function createLocalSteps(
  { strategy, codec, ...choice }: StrategyChoice,
  options: StrategyOptions,
): Promise<LocalSteps> {
  const { local, syncEvery: usual, codecs }: StrategyFacts = STRATEGIES[strategy];
  if (!isCollectiveCodec(codec)) {
    throw new UsageError(`${strategy} supports only the codecs ${codecs.join(', ')}. Choose one of them.`);
  }
  const { outer, isSparse, streaming } = local!;
  const { name, ...defaults } = outer;
  const learningRate = choice.outerLearningRate ?? defaults.learningRate;
  const syncEvery = choice.syncEvery ?? usual!;
  return LocalSteps.create({
    ...options,
    codec,
    syncEvery,
    createOuterOptimizer: (size) => createOptimizer(name, { ...defaults, learningRate }, size),
    createMean: (size) => (isSparse ? new SparseOuterMean(size) : new DenseOuterMean(size, { ...choice, codec })),
    ...(streaming && { streaming: streamingWithin(streaming, syncEvery) }),
  });
}

/**
 * Returns a shorter delay and fewer fragments if an exchange would otherwise begin before the
 * previous one has ended.
 */
function streamingWithin(streaming: FragmentExchangeFacts, syncEvery: number): FragmentExchangeFacts {
  const delay = Math.min(streaming.delay, syncEvery - 1);
  return { ...streaming, delay, fragments: Math.min(streaming.fragments, Math.floor(syncEvery / (delay + 1))) };
}
