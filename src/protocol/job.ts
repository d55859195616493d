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

const positiveInteger = (max: number) => v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(max));

/**
 * How ranks are linked: all by WebRTC, or where both are tabs of one browser by a message port, which is faster by far and shows
 * nothing of a network.
 */
export const TRANSPORT_NAMES = ['webrtc', 'auto'] as const;
export type TransportName = (typeof TRANSPORT_NAMES)[number];

/** Each has a GPU device and a copy of the model and the data. */
export const MAX_REPLICAS = 16;

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
  /** To measure what telemetry costs: in every second stretch of so many steps, ranks tell nothing but the steps themselves. */
  quietStretch: v.optional(positiveInteger(1_000_000)),
};

const TrainingPlan = v.strictObject(planFields);
export type TrainingPlan = v.InferOutput<typeof TrainingPlan>;

const JobFields = v.strictObject({
  job: v.picklist(JOB_NAMES),
  model: v.picklist(MODEL_NAMES),
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
  v.check(({ job, strategy }) => job !== 'lesson' || strategy === 'ring', 'the lesson goes with the strategy ring'),
);

export type JobSpec = v.InferOutput<typeof JobSpec>;
export type JobName = JobSpec['job'];
export type StrategyName = JobSpec['strategy'];

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
};

/** Whether ranks may come and go in a run: strategies whose ranks are equal after every step, and hold all that a joiner needs. */
export function isElastic({ strategy }: Pick<JobSpec, 'strategy'>): boolean {
  return strategy === 'ring';
}

export const DEFAULT_JOB: JobSpec = {
  job: 'digits',
  model: 'mlp',
  ...DEFAULT_PLAN,
  data: { kind: 'drawn' },
  replicas: 4,
  transport: 'webrtc',
};

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
