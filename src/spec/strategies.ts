/**
 * The strategies by which ranks learn together. Jobs, forms, pages and documents read the facts
 * about a strategy in its row. Its name and its texts are in `src/app/locales`, its class in
 * `src/parallel/strategies`, and the costs of its exchanges in `src/parallel/costs`.
 */
import { COLLECTIVE_CODECS, PIPELINE_CODECS, CODEC_SETTINGS, type JobCodecName, type CodecSetting } from './codecs.ts';
import type { OptimizerName } from './names.ts';

/** Kinds of models that need different numbers of steps. */
export type ModelKind = 'classifier' | 'language model';

/** How fragments of the parameters are exchanged in turn. */
export interface FragmentExchangeFacts {
  fragments: number;
  /** Steps from the beginning of an exchange until its result is applied (tau in the paper). */
  delay: number;
  /** Share of a rank's own parameters that remains after an exchange (alpha in the paper). */
  mixing: number;
}

/** How ranks that train alone exchange what they have learned. */
export interface OuterStepFacts {
  /** The optimizer that applies the mean of what ranks have learned. */
  outer: { name: OptimizerName; learningRate: number; momentum?: number };
  /** Whether ranks send only the largest changes, in a few bits each. */
  isSparse: boolean;
  /** `null`: ranks exchange all parameters together. */
  streaming: FragmentExchangeFacts | null;
}

/** A codec that a measuring run combines with the strategy, for the comparison with others. */
export interface ComparedCodec {
  codec: JobCodecName;
  /**
   * Number of steps until a goal is reached, as a multiple of the steps that `ddp` with `fp32`
   * takes. Measured with 4 ranks and the strategy's default settings. `classifier`: an mlp with 256
   * hidden units on MNIST, batches of 32, until 90 % accuracy; mean of 8 seeds. `language model`:
   * the job gpt with the preset tiny, until 2.2 nats per character of held-out text.
   */
  stepsToGoal: Record<ModelKind, number>;
}

/** Fields of a job that only some strategies have. */
export const STRATEGY_SETTINGS = [
  'syncEvery',
  'outerLearningRate',
  'staleness',
  'stages',
  'microBatches',
  'pipelineSchedule',
  'recompute',
] as const;
export type StrategySetting = (typeof STRATEGY_SETTINGS)[number];

/**
 * Features of a job that not every strategy supports. `mixed`: mixed precision. `federated`: tabs
 * with data of their own. `branches`: a model whose layers are not a chain.
 */
export type OptionalJobFeature = 'lesson' | 'measure' | 'shardOptimizer' | 'mixed' | 'federated' | 'branches';

export interface StrategyFacts {
  /**
   * The values that ranks exchange. `gradients`: all ranks take every step together, with the
   * averaged gradient. `server`: rank 0 receives gradients and returns parameters. `parameters`:
   * ranks train alone for some steps, and then exchange what they have learned. `activations`: each
   * rank has some of the layers, and sends their outputs and the gradients of their inputs.
   */
  exchanges: 'gradients' | 'server' | 'parameters' | 'activations';
  /**
   * Whether a rank waits for the other ranks in every step, so that it knows the losses of all
   * ranks.
   */
  isSynchronous: boolean;
  /**
   * Whether ranks may join and leave during a run. If so, the state must survive the loss of a
   * rank.
   */
  isElastic: boolean;
  /** Whether a run can be saved as a checkpoint. If so, each rank must have the whole state. */
  hasCheckpoints: boolean;
  /** Whether ranks communicate with all-reduces. If so, a job can choose their algorithm. */
  hasAllReduces: boolean;
  /**
   * Codecs for the values that ranks exchange. Strategies that send parameters have `fp32` only,
   * because rounding errors of parameters would persist. Differences of parameters can be rounded.
   */
  codecs: readonly CodecSetting[];
  settings: readonly StrategySetting[];
  /** The features of a job that the strategy does not support, with the reason. */
  excludes: Readonly<Partial<Record<OptionalJobFeature, string>>>;
  /** Default number of stages of the model; 1 if each rank has the whole model. */
  stages: number;
  optimizer: OptimizerName;
  /**
   * Default number of steps between two synchronizations of all ranks; `null` if they synchronize
   * in every step. See docs/STRATEGIES.md for measurements.
   */
  syncEvery: number | null;
  /** Defaults for language models, which take thousands of steps. */
  languageModel: { syncEvery?: number; outerLearningRate?: number };
  /** The exchange, if ranks train alone between two exchanges; otherwise `null`. */
  local: OuterStepFacts | null;
  /** The codecs for the comparison; empty if the costs of the strategy are not estimated. */
  compared: readonly ComparedCodec[];
}

/** Features of a job that strategies without an averaged gradient in every step do not support. */
const WITHOUT_AVERAGED_GRADIENTS = {
  lesson: 'the lesson requires the strategy ddp',
  measure: 'a measurement requires the strategy ddp',
  shardOptimizer: 'only the strategy ddp can shard the optimizer: choose ddp, or turn shardOptimizer off',
} as const;

const SERVER = {
  exchanges: 'server',
  isElastic: false,
  hasCheckpoints: false,
  hasAllReduces: false,
  codecs: ['fp32'],
  excludes: WITHOUT_AVERAGED_GRADIENTS,
  stages: 1,
  optimizer: 'adam',
  languageModel: {},
  local: null,
  compared: [],
} as const satisfies Partial<StrategyFacts>;

/** Ranks train alone between two exchanges, and average their parameters. */
const LOCAL = {
  exchanges: 'parameters',
  isSynchronous: false,
  isElastic: true,
  hasCheckpoints: true,
  hasAllReduces: true,
  // If parameters were rounded at every exchange, small changes would be lost.
  codecs: ['fp32'],
  settings: ['syncEvery'],
  excludes: WITHOUT_AVERAGED_GRADIENTS,
  stages: 1,
  optimizer: 'adam',
  syncEvery: 8,
  languageModel: {},
  // The outer optimizer applies the whole mean change, so that parameters are averaged.
  local: { outer: { name: 'sgd', learningRate: 1 }, isSparse: false, streaming: null },
  compared: [],
} as const satisfies StrategyFacts;

/** AdamW is the inner optimizer of the papers. */
const OUTER = {
  ...LOCAL,
  settings: ['syncEvery', 'outerLearningRate'],
  optimizer: 'adamw',
  // The DiLoCo paper's value of 500 is for runs of 100 000 steps. Runs here have a few hundred.
  syncEvery: 20,
} as const satisfies StrategyFacts;

/** The DiLoCo paper recommends these values. */
const NESTEROV = { name: 'nesterov', learningRate: 0.7, momentum: 0.9 } as const;

const ROWS = {
  ddp: {
    exchanges: 'gradients',
    isSynchronous: true,
    isElastic: true,
    hasCheckpoints: true,
    hasAllReduces: true,
    codecs: CODEC_SETTINGS,
    settings: [],
    excludes: {},
    stages: 1,
    optimizer: 'adam',
    syncEvery: null,
    languageModel: {},
    local: null,
    compared: [
      { codec: 'fp32', stepsToGoal: { classifier: 1, 'language model': 1 } },
      { codec: 'int8', stepsToGoal: { classifier: 1, 'language model': 1 } },
      { codec: 'powersgd', stepsToGoal: { classifier: 1.8, 'language model': 2.2 } },
    ],
  },
  'parameter-server': { ...SERVER, isSynchronous: true, settings: [], syncEvery: null },
  // Ranks are compared, and the model is evaluated, only when ranks are synchronized.
  'async-parameter-server': { ...SERVER, isSynchronous: false, settings: ['staleness', 'syncEvery'], syncEvery: 10 },
  'local-sgd': LOCAL,
  diloco: {
    ...OUTER,
    codecs: COLLECTIVE_CODECS,
    local: { outer: NESTEROV, isSparse: false, streaming: null },
    // Language models did not reach the goal of 2.2 nats in 1600 steps. So their number is for a
    // goal of 2.4 nats.
    compared: [{ codec: 'int8', stepsToGoal: { classifier: 2.5, 'language model': 4.5 } }],
  },
  'streaming-diloco': {
    ...OUTER,
    codecs: COLLECTIVE_CODECS,
    // The paper on Streaming DiLoCo recommends a mixing of 0.5 and a delay of up to 5 steps.
    local: { outer: NESTEROV, isSparse: false, streaming: { fragments: 4, delay: 4, mixing: 0.5 } },
    compared: [{ codec: 'int8', stepsToGoal: { classifier: 2.1, 'language model': 1.9 } }],
  },
  sparseloco: {
    ...OUTER,
    hasAllReduces: false,
    languageModel: { syncEvery: 6, outerLearningRate: 1 },
    local: { outer: { name: 'sgd', learningRate: 3 }, isSparse: true, streaming: null },
    compared: [{ codec: 'fp32', stepsToGoal: { classifier: 2.6, 'language model': 1.7 } }],
  },
  pipeline: {
    exchanges: 'activations',
    isSynchronous: true,
    // The state of a lost rank's stage survives in another rank: in the same stage of another
    // replica, or in a copy that a neighbour keeps.
    isElastic: true,
    hasCheckpoints: false,
    // Gradients are averaged only between replicas, separately for each stage.
    hasAllReduces: false,
    codecs: PIPELINE_CODECS,
    settings: ['stages', 'microBatches', 'pipelineSchedule', 'recompute'],
    excludes: {
      lesson: 'the lesson has no model that could be cut into stages',
      measure: 'a measurement needs the whole model in each tab',
      shardOptimizer: 'a stage has an optimizer of its own layers: turn shardOptimizer off',
      mixed: 'the passes of a pipeline run in full precision',
      federated: 'every stage needs all samples, so tabs must have the same data',
      branches: 'the model is not a chain of layers, so it cannot be cut into stages',
    },
    stages: 2,
    optimizer: 'adam',
    syncEvery: null,
    languageModel: {},
    local: null,
    compared: [],
  },
} as const satisfies Record<string, StrategyFacts>;

export type StrategyName = keyof typeof ROWS;

export const STRATEGIES: Readonly<Record<StrategyName, StrategyFacts>> = ROWS;

export const STRATEGY_NAMES = Object.keys(STRATEGIES) as StrategyName[];

export function isStrategyName(name: unknown): name is StrategyName {
  return STRATEGY_NAMES.includes(name as StrategyName);
}

/** Returns the names of the strategies with a property, separated by commas. */
export function listStrategiesWith(has: (facts: StrategyFacts) => boolean): string {
  return STRATEGY_NAMES.filter((name) => has(STRATEGIES[name])).join(', ');
}

/** Returns the names of the strategies that have a setting, separated by commas. */
export function listStrategiesWithSetting(setting: StrategySetting): string {
  return listStrategiesWith(({ settings }) => settings.includes(setting));
}

/** Whether all ranks take every step together with the averaged gradient. */
export function reducesGradients(strategy: StrategyName): boolean {
  return STRATEGIES[strategy].exchanges === 'gradients';
}

/** The strategies in which each rank has the whole model. */
export type ReplicaStrategyName = {
  [Name in StrategyName]: (typeof ROWS)[Name]['stages'] extends 1 ? Name : never;
}[StrategyName];

export function isReplicaStrategyName(strategy: StrategyName): strategy is ReplicaStrategyName {
  return STRATEGIES[strategy].stages === 1;
}

/** Returns the names of the strategies whose jobs can have the feature, as a list in words. */
export function listStrategiesSupporting(feature: OptionalJobFeature): string {
  return STRATEGY_NAMES.filter((name) => strategySupportsFeature(name, feature)).join(', ');
}

export function strategySupportsFeature(strategy: StrategyName, feature: OptionalJobFeature): boolean {
  return STRATEGIES[strategy].excludes[feature] === undefined;
}

/** The codecs of all strategies in words: `ddp: all; pipeline: fp32, fp16; others: fp32`. */
export const CODECS_BY_STRATEGY_TEXT = codecsInWords();

function codecsInWords(): string {
  const lists = new Map<string, StrategyName[]>();
  for (const name of STRATEGY_NAMES) {
    const { codecs } = STRATEGIES[name];
    const list = codecs.length === CODEC_SETTINGS.length ? 'all' : codecs.join(', ');
    lists.set(list, [...(lists.get(list) ?? []), name]);
  }
  const named = [...lists].filter(([list]) => list !== 'fp32').map(([list, names]) => `${names.join(', ')}: ${list}`);
  return [...named, 'others: fp32'].join('; ');
}
