/**
 * What a room trains: data, never code. Rank 0's job is what every rank runs.
 */
import * as v from 'valibot';
import { UsageError } from '../util/errors.ts';

/** `lesson` trains nothing: its ranks add up a few numbers by hand (`lesson.ts`), and what it says of a training is not used. */
export const JOB_NAMES = ['digits', 'mnist', 'lesson'] as const;
export const MODEL_NAMES = ['mlp', 'cnn'] as const;
export const OPTIMIZER_NAMES = ['sgd', 'momentum', 'nesterov', 'adam', 'adamw'] as const;

/** How ranks learn together: src/parallel/strategies has a file for each. */
export const STRATEGY_NAMES = [
  'ring',
  'parameter-server',
  'async-parameter-server',
  'data-parallel',
  'local-sgd',
  'diloco',
] as const;

/** How gradients travel, see {@link codecsOf}: `fp16` and `int8` are codecs of an all-reduce, `powersgd` sends thin matrices. */
export const CODEC_NAMES = ['fp32', 'fp16', 'int8', 'powersgd'] as const;

/** What a job may say: with `auto` ranks time their first steps and choose one of the others together. */
export const PLANNED_CODECS = [...CODEC_NAMES, 'auto'] as const;

export type StrategyName = (typeof STRATEGY_NAMES)[number];
/** The job's: collectives know of fewer. */
export type JobCodec = (typeof CODEC_NAMES)[number];
export type PlannedCodec = (typeof PLANNED_CODECS)[number];

const positiveInteger = (max: number) => v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(max));

const DEFAULT_HIDDEN = 64;

/**
 * How ranks are linked: all by WebRTC, or where both are tabs of one browser by a message port, which is faster by far and shows
 * nothing of a network.
 */
export const TRANSPORT_NAMES = ['webrtc', 'auto'] as const;
export type TransportName = (typeof TRANSPORT_NAMES)[number];

/** Each has a GPU device and a copy of the model and the data. */
export const MAX_REPLICAS = 16;

/** Widest hidden layer: its gradient has 13 MB, with which a ring over WebRTC takes seconds a step. */
export const MAX_HIDDEN = 4096;

/** Where `mnist` takes its IDX files from: a folder's URL, or files each tab's user picked. `digits` draws its own, a lesson has none. */
const DataSource = v.variant('kind', [
  v.strictObject({ kind: v.literal('drawn') }),
  v.strictObject({ kind: v.literal('url'), url: v.pipe(v.string(), v.minLength(1), v.maxLength(2048)) }),
  v.strictObject({ kind: v.literal('files') }),
  v.strictObject({ kind: v.literal('none') }),
]);

/** How a model is trained, whatever model it is. */
const planFields = {
  optimizer: v.picklist(OPTIMIZER_NAMES),
  learningRate: v.pipe(v.number(), v.finite(), v.gtValue(0), v.maxValue(10)),
  /** Samples per rank and step. */
  batchSize: positiveInteger(4096),
  /** Passes over the training data. */
  epochs: positiveInteger(1000),
  /** Stop after this many steps, if the passes are not over before. */
  maxSteps: v.nullable(positiveInteger(10_000_000)),
  seed: v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(0xffffffff)),
  /** Compare state hashes, and exchange statistics, every so many steps. */
  hashEvery: positiveInteger(1_000_000),
  strategy: v.picklist(STRATEGY_NAMES),
  /** Steps between two points where all ranks agree, for strategies that have them; `null`: the strategy's own default. */
  syncEvery: v.nullable(positiveInteger(1_000_000)),
  /** Steps that a rank may be ahead of the slowest, for `async-parameter-server`. */
  staleness: v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(1_000_000)),
  /** How what ranks exchange travels. */
  codec: v.optional(v.picklist(PLANNED_CODECS), 'fp32'),
  /** Whether what a codec's rounding took from a rank's part is added to what the rank sends next. */
  errorFeedback: v.optional(v.boolean(), true),
  /** To measure what telemetry costs: in every second stretch of so many steps, ranks tell nothing but the steps themselves. */
  quietStretch: v.optional(positiveInteger(1_000_000)),
};

const FITTING_CODEC = 'ring takes every codec, diloco takes fp16 and int8, and other strategies take fp32 only';

const TrainingPlan = v.pipe(
  v.strictObject(planFields),
  v.check(({ strategy, codec }) => codecsOf(strategy).includes(codec), FITTING_CODEC),
);
export type TrainingPlan = v.InferOutput<typeof TrainingPlan>;

const JobFields = v.strictObject({
  job: v.picklist(JOB_NAMES),
  model: v.picklist(MODEL_NAMES),
  /** Units of the mlp's hidden layer. */
  hidden: v.optional(positiveInteger(MAX_HIDDEN), DEFAULT_HIDDEN),
  ...planFields,
  data: DataSource,
  /** Workers in the one tab of `data-parallel`. */
  replicas: positiveInteger(MAX_REPLICAS),
  transport: v.optional(v.picklist(TRANSPORT_NAMES), 'webrtc'),
});

/** The one kind of data of jobs that have no choice. */
const DATA_OF: Partial<Record<(typeof JOB_NAMES)[number], string>> = { digits: 'drawn', lesson: 'none' };

export const JobSpec = v.pipe(
  JobFields,
  v.check(
    ({ job, data }) =>
      data.kind === DATA_OF[job] || (job === 'mnist' && (data.kind === 'url' || data.kind === 'files')),
    'digits draws its own data; mnist needs data of kind "url" or "files"; the lesson has none',
  ),
  v.check(({ strategy, codec }) => codecsOf(strategy).includes(codec), FITTING_CODEC),
  v.check(({ job, strategy }) => job !== 'lesson' || strategy === 'ring', 'the lesson goes with the strategy ring'),
);

export type JobSpec = v.InferOutput<typeof JobSpec>;
export type JobName = JobSpec['job'];

const DEFAULT_PLAN: TrainingPlan = {
  optimizer: 'adam',
  learningRate: 0.002,
  batchSize: 32,
  epochs: 1,
  maxSteps: null,
  seed: 1,
  hashEvery: 20,
  strategy: 'ring',
  syncEvery: null,
  staleness: 4,
  codec: 'fp32',
  errorFeedback: true,
};

/** Whether ranks may come and go in a run: strategies whose ranks are equal after every step, and hold all that a joiner needs. */
export function isElastic({ strategy }: Pick<JobSpec, 'strategy'>): boolean {
  return strategy === 'ring';
}

export const DEFAULT_JOB: JobSpec = {
  job: 'digits',
  model: 'mlp',
  hidden: DEFAULT_HIDDEN,
  ...DEFAULT_PLAN,
  data: { kind: 'drawn' },
  replicas: 4,
  transport: 'webrtc',
};

/**
 * The codecs that a strategy takes. What DiLoCo exchanges is a gradient of a kind, how far ranks have come; parameters, which others
 * exchange, would be rounded for good.
 */
export function codecsOf(strategy: StrategyName): readonly PlannedCodec[] {
  if (strategy === 'ring') return PLANNED_CODECS;
  return strategy === 'diloco' ? ['fp32', 'fp16', 'int8'] : ['fp32'];
}

/** DiLoCo's inner optimizer is AdamW, as in its paper. */
export function defaultOptimizer(strategy: unknown): JobSpec['optimizer'] {
  return strategy === 'diloco' ? 'adamw' : DEFAULT_PLAN.optimizer;
}

/**
 * Fills what `fields` leaves out from {@link DEFAULT_JOB}, with its strategy's optimizer, and checks the whole.
 *
 * @throws UsageError naming the first field that is wrong and what it may be.
 */
export function parseJob(fields: Record<string, unknown>): JobSpec {
  const optimizer = defaultOptimizer(fields['strategy']);
  const data = fields['job'] === 'lesson' ? { data: { kind: 'none' } } : {};
  return parse(JobSpec, { ...DEFAULT_JOB, ...data, optimizer, ...fields }, 'The job is');
}

/**
 * A Trainer's plan: like {@link parseJob}, and fields that are undefined are left out.
 *
 * @throws UsageError naming the first field that is wrong and what it may be, or that there is none of that name.
 */
export function parsePlan(fields: Record<string, unknown>): TrainingPlan {
  const given = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
  const unknown = Object.keys(given).find((name) => !Object.hasOwn(planFields, name));
  if (unknown !== undefined) {
    throw new UsageError(`Trainer has no option "${unknown}": it has ${Object.keys(planFields).join(', ')}.`);
  }
  const optimizer = defaultOptimizer(given['strategy']);
  return parse(TrainingPlan, { ...DEFAULT_PLAN, optimizer, ...given }, "Trainer's options are");
}

function parse<Schema extends v.GenericSchema>(schema: Schema, fields: unknown, what: string): v.InferOutput<Schema> {
  const result = v.safeParse(schema, fields);
  if (result.success) return result.output;
  const issue = result.issues[0];
  const path = v.getDotPath(issue);
  throw new UsageError(`${what} not valid: ${path === null ? '' : `${path}: `}${issue.message}.`);
}
