/** The training plan: the fields about training that jobs and Trainers share. */
import * as v from 'valibot';
import { UsageError } from '../util/errors.ts';
import { ALGORITHM_NAMES, whyAlgorithmCannotRun, type AlgorithmName } from './algorithms.ts';
import {
  CODEC_NAMES,
  CODECS,
  COLLECTIVE_CODECS,
  isCollectiveCodec,
  CODEC_SETTINGS,
  type CodecSetting,
} from './codecs.ts';
import {
  crossFieldCheck,
  defaultValuesOf,
  field,
  firstSchemaProblem,
  schemasOfFields,
  fieldProblemSentence,
  type FieldDeclaration,
  type FieldProblem,
} from './fields.ts';
import {
  BALANCE_NAMES,
  RUN_MEASUREMENT_NAMES,
  OPTIMIZER_NAMES,
  PRECISION_NAMES,
  RATE_SCHEDULE_NAMES,
  type OptimizerName,
} from './names.ts';
import {
  CODECS_BY_STRATEGY_TEXT,
  isReplicaStrategyName,
  isStrategyName,
  STRATEGIES,
  STRATEGY_NAMES,
  STRATEGY_SETTINGS,
  listStrategiesWithSetting,
  listStrategiesSupporting,
  listStrategiesWith,
  type OptionalJobFeature,
  type StrategyFacts,
  type StrategyName,
} from './strategies.ts';

export const positiveIntegerSchema = (max: number) => v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(max));

/** Longest run, minutes: a week. */
export const MAX_RUN_MINUTES = 7 * 24 * 60;

/** The fields that define how any model is trained. */
export const PLAN_FIELDS = {
  optimizer: field(v.picklist(OPTIMIZER_NAMES), 'adam', { value: 'name', help: 'optimizer' }),
  learningRate: field(v.pipe(v.number(), v.finite(), v.gtValue(0), v.maxValue(10)), 0.002, {
    name: 'lr',
    value: 'rate',
    help: 'learning rate',
  }),
  /** Samples per rank and step. */
  batchSize: field(positiveIntegerSchema(4096), 32, { name: 'batch', value: 'n', help: 'samples per tab and step' }),
  /** Epochs: passes over the training data. */
  epochs: field(positiveIntegerSchema(1000), 1, { value: 'n', help: 'passes over the training data' }),
  /** The largest number of steps of the run; `null`: no limit. */
  maxSteps: field(v.nullable(positiveIntegerSchema(10_000_000)), null, {
    name: 'steps',
    value: 'n',
    help: 'stop after this many steps',
  }),
  /**
   * Limit of the training time in minutes, by rank 0's clock. The run stops after the first step
   * that begins later than this.
   */
  maxMinutes: field(v.nullable(v.pipe(v.number(), v.finite(), v.gtValue(0), v.maxValue(MAX_RUN_MINUTES))), null, {
    name: 'minutes',
    value: 'n',
    help: 'stop after this many minutes of training',
  }),
  /**
   * Early stopping, like Keras's EarlyStopping: the run stops after this many evaluations without a
   * lower held-out loss. The best model is kept in addition to the final one. `null`: no early
   * stopping.
   */
  patience: field(v.nullable(positiveIntegerSchema(1000)), null, {
    value: 'n',
    help: 'stop after this many evaluations without a lower held-out loss, and save the best model with --out',
  }),
  schedule: field(v.picklist(RATE_SCHEDULE_NAMES), 'constant', {
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
  /**
   * Number of steps between two comparisons of state hashes, in which ranks also exchange
   * statistics.
   */
  hashEvery: field(positiveIntegerSchema(1_000_000), 20, {
    value: 'n',
    help: 'steps between two comparisons of the states of all ranks',
  }),
  strategy: field(v.picklist(STRATEGY_NAMES), 'ddp', { value: 'name', help: 'strategy by which ranks learn together' }),
  /**
   * Steps between two synchronizations, for strategies that synchronize only from time to time;
   * `null`: the strategy's default.
   */
  syncEvery: field(v.nullable(positiveIntegerSchema(1_000_000)), null, {
    value: 'n',
    help: `steps between two synchronizations (${listStrategiesWithSetting('syncEvery')})`,
  }),
  /**
   * Learning rate of the outer optimizer, for the DiLoCo family; `null`: the strategy's default.
   */
  outerLearningRate: field(v.nullable(v.pipe(v.number(), v.finite(), v.gtValue(0), v.maxValue(10))), null, {
    name: 'outer-lr',
    value: 'rate',
    help: `learning rate of the outer optimizer (${listStrategiesWithSetting('outerLearningRate')}; default: the strategy's)`,
  }),
  /** The largest number of steps by which a rank may be ahead of the slowest rank. */
  staleness: field(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(1_000_000)), 4, {
    value: 'n',
    help: `largest number of steps by which a rank may be ahead of the slowest (${listStrategiesWithSetting('staleness')})`,
  }),
  /** Algorithm of all-reduces; strategies without all-reduces ignore it. */
  algorithm: field(v.picklist(ALGORITHM_NAMES), 'auto', {
    value: 'name',
    help: `algorithm of the all-reduce (${listStrategiesWith(({ hasAllReduces }) => hasAllReduces)}); auto: chosen by a cost model`,
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
  codec: field(v.picklist(CODEC_SETTINGS), 'fp32', {
    value: 'name',
    help: `encoding of gradients (${CODECS_BY_STRATEGY_TEXT}); auto: chosen from the speed of links`,
  }),
  /**
   * Error feedback: whether a rank adds the rounding error of its encoded gradient to the next
   * gradient.
   */
  errorFeedback: field(v.boolean(), true, {
    value: 'on|off',
    help: 'add the rounding error of a codec to the next gradient',
  }),
  /** The measurement that replaces training; `null`: the run trains the model. */
  measure: field(v.nullable(v.picklist(RUN_MEASUREMENT_NAMES)), null, {
    value: 'name',
    help: `measure instead of training: methods compares strategies, learning-rate searches for a rate (${listStrategiesSupporting('measure')})`,
  }),
  /** ZeRO stage 1: each rank has the optimizer's averages of a shard of the parameters. */
  shardOptimizer: field(v.boolean(), false, {
    value: 'on|off',
    help: `divide the optimizer's averages among the ranks, to save memory (${listStrategiesSupporting('shardOptimizer')})`,
  }),
};

/**
 * Number of steps of a range test. With fewer steps than `least`, the learning rates are too far
 * apart. More steps than `most` would take longer for the same result.
 */
export const RANGE_TEST_STEPS = { least: 20, usual: 100, most: 1000 };

const PlanFields = v.strictObject(schemasOfFields(PLAN_FIELDS));
export type TrainingPlan = v.InferOutput<typeof PlanFields>;

/** The options of a plan's codec. */
export type CodecOptions = Pick<TrainingPlan, 'errorFeedback'>;

/**
 * For each feature that not every strategy supports: the path of its field, and a test whether a
 * plan has the feature.
 */
export type PlanFeatures<Plan> = Partial<
  Record<OptionalJobFeature, { path: FieldProblem['path']; isIn: (plan: Plan) => boolean }>
>;

/** The features of a plan that not every strategy supports. */
export const TRAINING_PLAN_FEATURES: PlanFeatures<TrainingPlan> = {
  measure: { path: ['measure'], isIn: ({ measure }) => measure !== null },
  shardOptimizer: { path: ['shardOptimizer'], isIn: ({ shardOptimizer }) => shardOptimizer },
  mixed: { path: ['precision'], isIn: ({ precision }) => precision === 'mixed' },
};

/**
 * Returns the problem with the first feature or setting of a plan that its strategy does not
 * support; `null` if the strategy supports all of them.
 *
 * @param fields the declarations of the plan's fields. A setting with its default value counts as
 *   not set.
 */
export function strategyProblem<Plan extends { strategy: StrategyName }>(
  plan: Plan,
  fields: Readonly<Record<string, FieldDeclaration>>,
  features: PlanFeatures<Plan>,
): FieldProblem | null {
  const { excludes, settings } = STRATEGIES[plan.strategy];
  for (const [feature, { path, isIn }] of Object.entries(features)) {
    const message = excludes[feature as OptionalJobFeature];
    if (message !== undefined && isIn(plan)) return { path, message };
  }
  const foreign = STRATEGY_SETTINGS.find(
    (name) =>
      !settings.includes(name) &&
      Object.hasOwn(fields, name) &&
      plan[name as keyof Plan] !== fields[name]!.defaultValue,
  );
  if (foreign === undefined) return null;
  const message = `${plan.strategy} has no such setting: remove it, or choose a strategy that has it (${listStrategiesWithSetting(foreign)})`;
  return { path: [foreign], message };
}

/** Returns the first problem between fields of a plan; `null` if all fields fit together. */
export function trainingPlanProblem(plan: TrainingPlan): FieldProblem | null {
  const { strategy, codec, measure, maxSteps } = plan;
  const { least, most } = RANGE_TEST_STEPS;
  const isLong = maxSteps !== null && maxSteps >= least && maxSteps <= most;
  if (!STRATEGIES[strategy].codecs.includes(codec)) {
    return { path: [], message: `the codecs of the strategies are ${CODECS_BY_STRATEGY_TEXT}` };
  }
  if (!codecFitsAlgorithm(plan)) {
    const fitting = CODEC_NAMES.filter((name) => !codecEncodesHops(name)).join(' and ');
    const message = `the algorithm doubling supports only the codecs ${fitting}: with others, the roundings of two ranks would differ`;
    return { path: [], message };
  }
  if (measure === 'learning-rate' && !isLong) {
    return { path: ['measure'], message: `the search for a learning rate requires maxSteps of ${least} to ${most}` };
  }
  const message = plan.shardOptimizer ? shardProblem(plan) : null;
  return message === null ? null : { path: ['shardOptimizer'], message };
}

/** Returns why the optimizer of a plan cannot be sharded; `null` if it can. */
function shardProblem({ codec, algorithm }: TrainingPlan): string | null {
  if (!isCollectiveCodec(codec)) {
    return `the codec ${codec} reduces whole gradients, but a sharded optimizer reduces shards: choose one of ${COLLECTIVE_CODECS.join(', ')}`;
  }
  if (algorithm !== 'auto' && algorithm !== 'ring') {
    return `shards of gradients are summed on the ring, not by ${algorithm}: choose the algorithm ring or auto`;
  }
  return null;
}

/**
 * Returns whether all-reduces with this codec encode the values that they send. `auto` counts as
 * such a codec, because a run may choose one.
 */
export function codecEncodesHops(codec: CodecSetting): boolean {
  return codec === 'auto' || CODECS[codec].encodes === 'hop';
}

/** Returns whether every all-reduce of the plan can encode its values. */
export function codecFitsAlgorithm({ algorithm, codec }: { algorithm: AlgorithmName; codec: CodecSetting }): boolean {
  return whyAlgorithmCannotRun(algorithm, 1, codecEncodesHops(codec)) === null;
}

/**
 * Returns why `n` ranks cannot run the plan's algorithm, as a clause, or `null` if they can or if
 * the strategy has no all-reduces.
 */
export function whyPlanCannotRun({ strategy, algorithm }: Pick<TrainingPlan, 'strategy' | 'algorithm'>, n: number) {
  return STRATEGIES[strategy].hasAllReduces ? whyAlgorithmCannotRun(algorithm, n) : null;
}

const FittingPlan = v.pipe(
  PlanFields,
  v.check(
    ({ strategy }) => isReplicaStrategyName(strategy),
    'each rank of a Trainer has the whole model: choose another strategy, or use PipelineStage',
  ),
  crossFieldCheck(
    (plan: TrainingPlan) => strategyProblem(plan, PLAN_FIELDS, TRAINING_PLAN_FEATURES) ?? trainingPlanProblem(plan),
  ),
);

const DEFAULT_PLAN: TrainingPlan = defaultValuesOf(PLAN_FIELDS);

/**
 * Returns the facts of a strategy. Without such a strategy, returns those of the default strategy.
 */
export function strategyFactsOf(strategy: unknown): StrategyFacts {
  return STRATEGIES[isStrategyName(strategy) ? strategy : DEFAULT_PLAN.strategy];
}

/**
 * Returns the optimizer whose averages are part of a run's state. If ranks train alone between
 * exchanges, this is the outer optimizer, because the averages of the inner optimizer differ by
 * rank.
 */
export function optimizerInRunState({
  strategy,
  optimizer,
}: Pick<TrainingPlan, 'strategy' | 'optimizer'>): OptimizerName {
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
  const { optimizer } = strategyFactsOf(given['strategy']);
  const maxSteps = given['measure'] === 'learning-rate' ? RANGE_TEST_STEPS.usual : DEFAULT_PLAN.maxSteps;
  const result = v.safeParse(FittingPlan, { ...DEFAULT_PLAN, optimizer, maxSteps, ...given });
  if (result.success) return result.output;
  throw new UsageError(`Trainer's options are not valid: ${fieldProblemSentence(firstSchemaProblem(result.issues))}.`);
}
