/**
 * The strategies by which ranks learn together. All that jobs, forms, pages and documents know
 * about a strategy is in its row; `src/parallel/strategies` has its class.
 */
import { COLLECTIVE_CODECS, PLANNED_CODECS, type PlannedCodec } from './codecs.ts';
import type { OptimizerName } from './names.ts';

/** Settings that only some strategies have. */
export type StrategySetting = 'syncEvery' | 'outerLearningRate' | 'staleness';

/** Facts about a strategy. */
export interface StrategyFacts {
  /**
   * What ranks exchange. `gradients`: all ranks take every step together, with the averaged
   * gradient. `server`: rank 0 receives gradients and returns parameters. `parameters`: ranks train
   * alone for some steps, and then exchange what they have learned.
   */
  exchanges: 'gradients' | 'server' | 'parameters';
  /** Whether a rank waits for the others in every step, so that it knows the losses of all. */
  isSynchronous: boolean;
  /** Whether ranks may join and leave during a run: the state survives the loss of a rank. */
  isElastic: boolean;
  /** Whether ranks send by all-reduces, whose algorithm a job can choose. */
  hasAllReduces: boolean;
  /**
   * Codecs of what ranks exchange. Strategies that send parameters have `fp32` only, because
   * rounding errors of parameters would persist; differences of parameters can be rounded.
   */
  codecs: readonly PlannedCodec[];
  settings: readonly StrategySetting[];
  /** The default optimizer of a rank. */
  optimizer: OptimizerName;
  /** The optimizer that is applied to what ranks exchange; `null`: the rank's own. */
  outerOptimizer: OptimizerName | null;
}

const SERVER = {
  exchanges: 'server',
  isElastic: false,
  hasAllReduces: false,
  codecs: ['fp32'],
  optimizer: 'adam',
  outerOptimizer: null,
} as const satisfies Partial<StrategyFacts>;

/** Ranks train alone between two exchanges. */
const LOCAL = {
  exchanges: 'parameters',
  isSynchronous: false,
  isElastic: true,
  hasAllReduces: true,
  codecs: ['fp32'],
  settings: ['syncEvery'],
  optimizer: 'adam',
  outerOptimizer: 'sgd',
} as const satisfies StrategyFacts;

/** AdamW is the inner optimizer of the papers, and Nesterov momentum the outer one. */
const DILOCO = {
  ...LOCAL,
  codecs: COLLECTIVE_CODECS,
  settings: ['syncEvery', 'outerLearningRate'],
  optimizer: 'adamw',
  outerOptimizer: 'nesterov',
} as const satisfies StrategyFacts;

const ROWS = {
  ddp: {
    exchanges: 'gradients',
    isSynchronous: true,
    isElastic: true,
    hasAllReduces: true,
    codecs: PLANNED_CODECS,
    settings: [],
    optimizer: 'adam',
    outerOptimizer: null,
  },
  'parameter-server': { ...SERVER, isSynchronous: true, settings: [] },
  'async-parameter-server': { ...SERVER, isSynchronous: false, settings: ['staleness', 'syncEvery'] },
  'local-sgd': LOCAL,
  diloco: DILOCO,
  'streaming-diloco': DILOCO,
  sparseloco: {
    ...LOCAL,
    hasAllReduces: false,
    settings: ['syncEvery', 'outerLearningRate'],
    optimizer: 'adamw',
  },
} as const satisfies Record<string, StrategyFacts>;

export type StrategyName = keyof typeof ROWS;

export const STRATEGIES: Readonly<Record<StrategyName, StrategyFacts>> = ROWS;

export const STRATEGY_NAMES = Object.keys(STRATEGIES) as StrategyName[];

/** Returns the names of the strategies with a property, as a list in words. */
export function strategiesWith(has: (facts: StrategyFacts) => boolean): string {
  return STRATEGY_NAMES.filter((name) => has(STRATEGIES[name])).join(', ');
}

/**
 * Whether all ranks take every step together with the averaged gradient. Pipelines, sharded
 * optimizers, measurements and the lesson require it.
 */
export function reducesGradients(strategy: StrategyName): boolean {
  return STRATEGIES[strategy].exchanges === 'gradients';
}

export const WITH_GRADIENTS = strategiesWith(({ exchanges }) => exchanges === 'gradients');

/** The codecs of all strategies, in words: `ddp: all; diloco: fp32, fp16; others: fp32`. */
export const CODECS_BY_STRATEGY = codecsInWords();

function codecsInWords(): string {
  const lists = new Map<string, StrategyName[]>();
  for (const name of STRATEGY_NAMES) {
    const { codecs } = STRATEGIES[name];
    const list = codecs.length === PLANNED_CODECS.length ? 'all' : codecs.join(', ');
    lists.set(list, [...(lists.get(list) ?? []), name]);
  }
  const named = [...lists].filter(([list]) => list !== 'fp32').map(([list, names]) => `${names.join(', ')}: ${list}`);
  return [...named, 'others: fp32'].join('; ');
}
