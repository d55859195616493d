/** The training plan: the fields about training that jobs and Trainers share. */
import * as v from 'valibot';
import { UsageError } from '../util/errors.ts';
import { ALGORITHM_NAMES, whyAlgorithmDoesNotFit, type AlgorithmName } from './algorithms.ts';
import {
  CODEC_NAMES,
  CODECS,
  COLLECTIVE_CODECS,
  isCollectiveCodec,
  PLANNED_CODECS,
  type PlannedCodec,
} from './codecs.ts';
import { defaultValuesOf, field, issuePath, problemOf, schemasOf, sentenceOf } from './fields.ts';
import {
  BALANCE_NAMES,
  MEASURE_NAMES,
  OPTIMIZER_NAMES,
  PRECISION_NAMES,
  SCHEDULE_NAMES,
  type OptimizerName,
} from './names.ts';
import {
  CODECS_BY_STRATEGY,
  isStrategy,
  reducesGradients,
  STRATEGIES,
  STRATEGY_NAMES,
  strategiesWith,
  WITH_GRADIENTS,
  type StrategyFacts,
} from './strategies.ts';

export const positiveInteger = (max: number) => v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(max));

/** Longest run, minutes: a week. */
export const MAX_MINUTES = 7 * 24 * 60;

/** The fields that define how any model is trained. */
export const PLAN_FIELDS = {
  optimizer: field(v.picklist(OPTIMIZER_NAMES), 'adam', { value: 'name', help: 'optimizer' }),
  learningRate: field(v.pipe(v.number(), v.finite(), v.gtValue(0), v.maxValue(10)), 0.002, {
    name: 'lr',
    value: 'rate',
    help: 'learning rate',
  }),
  /** Samples per rank and step. */
  batchSize: field(positiveInteger(4096), 32, { name: 'batch', value: 'n', help: 'samples per tab and step' }),
  /** Epochs: passes over the training data. */
  epochs: field(positiveInteger(1000), 1, { value: 'n', help: 'passes over the training data' }),
  /** The largest number of steps of the run; `null`: no limit. */
  maxSteps: field(v.nullable(positiveInteger(10_000_000)), null, {
    name: 'steps',
    value: 'n',
    help: 'stop after this many steps',
  }),
  /**
   * Limit of the training time in minutes, by rank 0's clock. The run stops after the first step
   * that begins later than this.
   */
  maxMinutes: field(v.nullable(v.pipe(v.number(), v.finite(), v.gtValue(0), v.maxValue(MAX_MINUTES))), null, {
    name: 'minutes',
    value: 'n',
    help: 'stop after this many minutes of training',
  }),
  /**
   * Early stopping, like Keras's EarlyStopping: the run stops after this many evaluations without a
   * lower held-out loss. The best model is kept in addition to the final one. `null`: no early
   * stopping.
   */
  patience: field(v.nullable(positiveInteger(1000)), null, {
    value: 'n',
    help: 'stop after this many evaluations without a lower held-out loss, and save the best model with --out',
  }),
  schedule: field(v.picklist(SCHEDULE_NAMES), 'constant', {
    value: 'name',
    help: 'schedule of the learning rate (default: cosine for gpt, otherwise constant)',
  }),
  /** Number of steps at the start in which the learning rate rises to its full value. */
  warmupSteps: field(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(1_000_000)), 0, {
    value: 'n',
    help: 'steps of linear learning-rate warm-up',
  }),
  /** Gradient clipping: a gradient with a larger L2 norm is scaled down to this norm. */
  clipNorm: field(v.nullable(v.pipe(v.number(), v.finite(), v.gtValue(0))), null, {
    value: 'length',
    help: 'clip gradients to this L2 norm',
  }),
  /** Weight decay; `null`: the optimizer's default. */
  weightDecay: field(v.nullable(v.pipe(v.number(), v.minValue(0), v.maxValue(10))), null, {
    value: 'share',
    help: "weight decay (default: the optimizer's)",
  }),
  seed: field(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(0xffffffff)), 1, {
    value: 'n',
    help: 'seed of initial parameters and shuffles',
  }),
  /** Steps between two comparisons of state hashes and exchanges of statistics. */
  hashEvery: field(positiveInteger(1_000_000), 20, {
    value: 'n',
    help: 'steps between two comparisons of the states of all ranks',
  }),
  strategy: field(v.picklist(STRATEGY_NAMES), 'ddp', { value: 'name', help: 'strategy by which ranks learn together' }),
  /**
   * Steps between two synchronizations, for strategies that synchronize only from time to time;
   * `null`: the strategy's default.
   */
  syncEvery: field(v.nullable(positiveInteger(1_000_000)), null, {
    value: 'n',
    help: `steps between two synchronizations (${strategiesWith(({ settings }) => settings.includes('syncEvery'))})`,
  }),
  /**
   * Learning rate of the outer optimizer, for the DiLoCo family; `null`: the strategy's default.
   */
  outerLearningRate: field(v.nullable(v.pipe(v.number(), v.finite(), v.gtValue(0), v.maxValue(10))), null, {
    name: 'outer-lr',
    value: 'rate',
    help: `learning rate of the outer optimizer (${strategiesWith(({ settings }) => settings.includes('outerLearningRate'))}; default: the strategy's)`,
  }),
  /**
   * For `async-parameter-server`: the largest number of steps by which a rank may be ahead of the
   * slowest rank.
   */
  staleness: field(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(1_000_000)), 4, {
    value: 'n',
    help: 'largest number of steps by which a rank may be ahead of the slowest (async-parameter-server)',
  }),
  /** Algorithm of all-reduces; strategies without all-reduces ignore it. */
  algorithm: field(v.picklist(ALGORITHM_NAMES), 'auto', {
    value: 'name',
    help: `algorithm of the all-reduce (${strategiesWith(({ hasAllReduces }) => hasAllReduces)}); auto: chosen by a cost model`,
  }),
  /**
   * How a step's samples are divided among ranks. Only `ddp` with data that all ranks have divides
   * them by speed; see `WorkBalance`.
   */
  balance: field(v.picklist(BALANCE_NAMES), 'speed', {
    value: 'name',
    help: 'how samples of a step are divided among ranks (ddp): by measured speed, or equal',
  }),
  precision: field(v.picklist(PRECISION_NAMES), 'full', {
    value: 'name',
    help: 'precision of matrix products: full (float32), or mixed (float16 with float32 sums, on GPUs that support it)',
  }),
  /** Encoding of the gradients that ranks exchange. */
  codec: field(v.picklist(PLANNED_CODECS), 'fp32', {
    value: 'name',
    help: `encoding of gradients (${CODECS_BY_STRATEGY}); auto: chosen from the speed of links`,
  }),
  /**
   * Error feedback: whether a rank adds the rounding error of its encoded gradient to the next
   * gradient.
   */
  errorFeedback: field(v.boolean(), true, {
    value: 'on|off',
    help: 'add the rounding error of a codec to the next gradient',
  }),
  /** What the run measures instead of training the model; `null`: it trains. */
  measure: field(v.nullable(v.picklist(MEASURE_NAMES)), null, {
    value: 'name',
    help: `measure instead of training: methods compares strategies, learning-rate searches for a rate (${WITH_GRADIENTS})`,
  }),
  /** ZeRO stage 1: each rank has the optimizer's averages of a shard of the parameters. */
  shardOptimizer: field(v.boolean(), false, {
    value: 'on|off',
    help: "divide the optimizer's averages among the ranks, to save memory (ddp)",
  }),
};

/**
 * Number of steps of a range test. With fewer steps than `least`, the learning rates are too far
 * apart. More steps than `most` would take longer for the same result.
 */
export const RANGE_TEST_STEPS = { least: 20, usual: 100, most: 1000 };

/** Returns why a plan cannot measure what it should; `null` if it can, or if it trains. */
export function measureProblem({
  measure,
  strategy,
  maxSteps,
}: Pick<TrainingPlan, 'measure' | 'strategy' | 'maxSteps'>): string | null {
  if (measure === null) return null;
  const { least, most } = RANGE_TEST_STEPS;
  if (!reducesGradients(strategy)) return `a measurement requires the strategy ${WITH_GRADIENTS}`;
  const isLong = maxSteps !== null && maxSteps >= least && maxSteps <= most;
  return measure === 'learning-rate' && !isLong
    ? `the search for a learning rate requires maxSteps of ${least} to ${most}`
    : null;
}

export const FITTING_CODEC = `the codecs of the strategies are ${CODECS_BY_STRATEGY}`;

export const FITTING_ALGORITHM = `the algorithm doubling supports only the codecs ${CODEC_NAMES.filter((name) => !encodesHops(name)).join(' and ')}: with others, the roundings of two ranks would differ`;

/**
 * Returns whether all-reduces with this codec encode the values that they send. `auto` counts as
 * such a codec, because a run may choose one.
 */
export function encodesHops(codec: PlannedCodec): boolean {
  return codec === 'auto' || CODECS[codec].encodes === 'hop';
}

/** Returns whether every all-reduce of the plan can encode its values. */
export function fitsAlgorithm({ algorithm, codec }: { algorithm: AlgorithmName; codec: PlannedCodec }): boolean {
  return whyAlgorithmDoesNotFit(algorithm, 1, encodesHops(codec)) === null;
}

/**
 * Returns why `n` ranks cannot run the plan's algorithm, as a clause, or `null` if they can or if
 * the strategy has no all-reduces.
 */
export function whyPlanDoesNotFit({ strategy, algorithm }: Pick<TrainingPlan, 'strategy' | 'algorithm'>, n: number) {
  return STRATEGIES[strategy].hasAllReduces ? whyAlgorithmDoesNotFit(algorithm, n) : null;
}

/** Returns why the optimizer of a plan cannot be sharded; `null` if it can, or if it is whole. */
export function shardProblem({
  shardOptimizer,
  strategy,
  codec,
  algorithm,
}: Pick<TrainingPlan, 'shardOptimizer' | 'strategy' | 'codec' | 'algorithm'>): string | null {
  if (!shardOptimizer) return null;
  if (!reducesGradients(strategy)) {
    return `only the strategy ${WITH_GRADIENTS} can shard the optimizer: choose ${WITH_GRADIENTS}, or turn shardOptimizer off`;
  }
  if (!isCollectiveCodec(codec)) {
    return `the codec ${codec} reduces whole gradients, but a sharded optimizer reduces shards: choose one of ${COLLECTIVE_CODECS.join(', ')}`;
  }
  if (algorithm !== 'auto' && algorithm !== 'ring') {
    return `shards of gradients are summed on the ring, not by ${algorithm}: choose the algorithm ring or auto`;
  }
  return null;
}

const TrainingPlan = v.pipe(
  v.strictObject(schemasOf(PLAN_FIELDS)),
  v.check(({ strategy, codec }) => STRATEGIES[strategy].codecs.includes(codec), FITTING_CODEC),
  v.check((plan) => fitsAlgorithm(plan), FITTING_ALGORITHM),
  v.rawCheck(({ dataset, addIssue }) => {
    const message = dataset.typed ? measureProblem(dataset.value) : null;
    if (message !== null) addIssue({ message, path: issuePath(['measure']) });
  }),
  v.rawCheck(({ dataset, addIssue }) => {
    const message = dataset.typed ? shardProblem(dataset.value) : null;
    if (message !== null) addIssue({ message, path: issuePath(['shardOptimizer']) });
  }),
);

export type TrainingPlan = v.InferOutput<typeof TrainingPlan>;

const DEFAULT_PLAN: TrainingPlan = defaultValuesOf(PLAN_FIELDS);

/** Returns the strategy's default optimizer. */
export function defaultOptimizer(strategy: unknown): OptimizerName {
  return isStrategy(strategy) ? STRATEGIES[strategy].optimizer : DEFAULT_PLAN.optimizer;
}

/**
 * Returns the optimizer whose averages are part of a run's state: the outer optimizer if ranks
 * train alone between exchanges, because the averages of the inner one are a rank's own.
 */
export function stateOptimizer({ strategy, optimizer }: Pick<TrainingPlan, 'strategy' | 'optimizer'>): OptimizerName {
  const { local }: StrategyFacts = STRATEGIES[strategy];
  return local?.outer.name ?? optimizer;
}

/**
 * Parses a Trainer's plan, as {@link parseJob} parses a job. Undefined fields are treated as
 * missing.
 *
 * @throws UsageError with the first invalid or unknown field and its valid values.
 */
export function parsePlan(fields: Record<string, unknown>): TrainingPlan {
  const given = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
  const unknown = Object.keys(given).find((name) => !Object.hasOwn(PLAN_FIELDS, name));
  if (unknown !== undefined) {
    throw new UsageError(`Trainer has no option "${unknown}": choose one of ${Object.keys(PLAN_FIELDS).join(', ')}.`);
  }
  const optimizer = defaultOptimizer(given['strategy']);
  const maxSteps = given['measure'] === 'learning-rate' ? RANGE_TEST_STEPS.usual : DEFAULT_PLAN.maxSteps;
  const result = v.safeParse(TrainingPlan, { ...DEFAULT_PLAN, optimizer, maxSteps, ...given });
  if (result.success) return result.output;
  throw new UsageError(`Trainer's options are not valid: ${sentenceOf(problemOf(result.issues))}.`);
}
