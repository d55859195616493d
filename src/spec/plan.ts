/** How a model is trained, whatever model it is: the fields that jobs and Trainers share. */
import * as v from 'valibot';
import { UsageError } from '../util/errors.ts';
import { defaultValuesOf, field, problemOf, schemasOf, sentenceOf } from './fields.ts';
import {
  OPTIMIZER_NAMES,
  PLANNED_CODECS,
  SCHEDULE_NAMES,
  STRATEGY_NAMES,
  type OptimizerName,
  type PlannedCodec,
  type StrategyName,
} from './names.ts';

export const positiveInteger = (max: number) => v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(max));

/** Longest run, minutes: a week. */
export const MAX_MINUTES = 7 * 24 * 60;

/** How a model is trained, whatever model it is. */
export const PLAN_FIELDS = {
  optimizer: field(v.picklist(OPTIMIZER_NAMES), 'adam', { value: 'name', help: 'which optimizer' }),
  learningRate: field(v.pipe(v.number(), v.finite(), v.gtValue(0), v.maxValue(10)), 0.002, {
    name: 'lr',
    value: 'rate',
    help: 'learning rate',
  }),
  /** Samples per rank and step. */
  batchSize: field(positiveInteger(4096), 32, { name: 'batch', value: 'n', help: 'samples per tab and step' }),
  /** Passes over the training data. */
  epochs: field(positiveInteger(1000), 1, { value: 'n', help: 'passes over the training data' }),
  /** Stop after this many steps, if the passes are not over before. */
  maxSteps: field(v.nullable(positiveInteger(10_000_000)), null, {
    name: 'steps',
    value: 'n',
    help: 'stop after so many steps',
  }),
  /** Stop after the step in which so many minutes of training are over, by rank 0's clock. */
  maxMinutes: field(v.nullable(v.pipe(v.number(), v.finite(), v.gtValue(0), v.maxValue(MAX_MINUTES))), null, {
    name: 'minutes',
    value: 'n',
    help: 'stop after so many minutes of training',
  }),
  /**
   * Stop after this many tests on held-out samples without a lower loss than before, as Keras's
   * EarlyStopping does, and keep the model that tested best, too; `null`: go on.
   */
  patience: field(v.nullable(positiveInteger(1000)), null, {
    value: 'n',
    help: 'stop after so many tests on held-out samples without a lower loss, and --out the best model',
  }),
  schedule: field(v.picklist(SCHEDULE_NAMES), 'constant', {
    value: 'name',
    help: 'how the learning rate goes (gpt: cosine, else constant); range-test looks for one',
  }),
  /** Steps in which the learning rate rises to what it is, at first. */
  warmupSteps: field(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(1_000_000)), 0, {
    value: 'n',
    help: 'steps in which the learning rate rises at first',
  }),
  /** Longest gradient, by its L2 norm: longer ones are scaled down to it. */
  clipNorm: field(v.nullable(v.pipe(v.number(), v.finite(), v.gtValue(0))), null, {
    value: 'length',
    help: 'scale longer gradients down to it',
  }),
  /** `null`: the optimizer's own. */
  weightDecay: field(v.nullable(v.pipe(v.number(), v.minValue(0), v.maxValue(10))), null, {
    value: 'share',
    help: "the optimizer's weight decay",
  }),
  seed: field(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(0xffffffff)), 1, {
    value: 'n',
    help: 'seed of parameters and shuffles',
  }),
  /** Compare state hashes, and exchange statistics, every so many steps. */
  hashEvery: field(positiveInteger(1_000_000), 20, { value: 'n', help: 'compare the ranks every n steps' }),
  strategy: field(v.picklist(STRATEGY_NAMES), 'ddp', { value: 'name', help: 'how ranks learn together' }),
  /**
   * Steps between two points where all ranks agree, for strategies that have them; `null`: the
   * strategy's own default.
   */
  syncEvery: field(v.nullable(positiveInteger(1_000_000)), null, {
    value: 'n',
    help: 'steps between two exchanges (local-sgd, diloco, async-parameter-server)',
  }),
  /** Steps that a rank may be ahead of the slowest, for `async-parameter-server`. */
  staleness: field(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(1_000_000)), 4, {
    value: 'n',
    help: 'steps a rank may be ahead of the slowest (async-parameter-server)',
  }),
  /** How what ranks exchange travels. */
  codec: field(v.picklist(PLANNED_CODECS), 'fp32', {
    value: 'name',
    help: 'how gradients travel (ring; diloco: fp16, int8); auto: as links need',
  }),
  /**
   * Whether what a codec's rounding took from a rank's part is added to what the rank sends next.
   */
  errorFeedback: field(v.boolean(), true, {
    value: 'on|off',
    help: 'add what a codec lost to what is sent next',
  }),
  /**
   * To measure what telemetry costs: in every second stretch of so many steps, ranks tell nothing
   * but the steps themselves.
   */
  quietStretch: field(v.optional(positiveInteger(1_000_000)), undefined),
};

/** Steps of a range test. With fewer a rate is hardly tried, with more it finds the same. */
export const RANGE_TEST_STEPS = { least: 20, usual: 100, most: 1000 };

export const FITTING_RANGE_TEST =
  `range-test goes with the strategy ddp, and with maxSteps of ${RANGE_TEST_STEPS.least} to ${RANGE_TEST_STEPS.most}: what it finds ` +
  'with the ring holds for parameter-server and data-parallel, too';

/** Only where all ranks take every step together do all know its loss. */
export function fitsRangeTest(plan: { schedule: string; strategy: string; maxSteps: number | null }): boolean {
  const { schedule, strategy, maxSteps } = plan;
  const { least, most } = RANGE_TEST_STEPS;
  const isLong = maxSteps !== null && maxSteps >= least && maxSteps <= most;
  return schedule !== 'range-test' || (strategy === 'ddp' && isLong);
}

export const FITTING_CODEC = 'ring takes every codec, diloco takes fp16 and int8, and other strategies take fp32 only';

const TrainingPlan = v.pipe(
  v.strictObject(schemasOf(PLAN_FIELDS)),
  v.check(({ strategy, codec }) => codecsOf(strategy).includes(codec), FITTING_CODEC),
  v.check((plan) => fitsRangeTest(plan), FITTING_RANGE_TEST),
);

export type TrainingPlan = v.InferOutput<typeof TrainingPlan>;

const DEFAULT_PLAN: TrainingPlan = defaultValuesOf(PLAN_FIELDS);

/**
 * The codecs that a strategy takes. What DiLoCo exchanges is a gradient of a kind, how far ranks
 * have come; parameters, which others exchange, would be rounded for good.
 */
export function codecsOf(strategy: StrategyName): readonly PlannedCodec[] {
  if (strategy === 'ddp') return PLANNED_CODECS;
  return strategy === 'diloco' ? ['fp32', 'fp16', 'int8'] : ['fp32'];
}

/** DiLoCo's inner optimizer is AdamW, as in its paper. */
export function defaultOptimizer(strategy: unknown): OptimizerName {
  return strategy === 'diloco' ? 'adamw' : DEFAULT_PLAN.optimizer;
}

/**
 * A Trainer's plan: like {@link parseJob}, and fields that are undefined are left out.
 *
 * @throws UsageError naming the first field that is wrong and what it may be, or that there is none
 *   of that name.
 */
export function parsePlan(fields: Record<string, unknown>): TrainingPlan {
  const given = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
  const unknown = Object.keys(given).find((name) => !Object.hasOwn(PLAN_FIELDS, name));
  if (unknown !== undefined) {
    throw new UsageError(`Trainer has no option "${unknown}": it has ${Object.keys(PLAN_FIELDS).join(', ')}.`);
  }
  const optimizer = defaultOptimizer(given['strategy']);
  const maxSteps = given['schedule'] === 'range-test' ? RANGE_TEST_STEPS.usual : DEFAULT_PLAN.maxSteps;
  const result = v.safeParse(TrainingPlan, { ...DEFAULT_PLAN, optimizer, maxSteps, ...given });
  if (result.success) return result.output;
  throw new UsageError(`Trainer's options are not valid: ${sentenceOf(problemOf(result.issues))}.`);
}
