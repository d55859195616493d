/**
 * What a room trains: data, never code. Rank 0's job is what every rank runs.
 */
import * as v from 'valibot';
import { UsageError } from '../util/errors.ts';
import {
  defaultValuesOf,
  field,
  fieldsOf,
  issuePath,
  problemOf,
  schemasOf,
  sentenceOf,
  type Problem,
} from './fields.ts';
import { GPT_FIELDS, GptModel, PRESETS } from './gpt.ts';
import { IMAGE_SIDE } from './inspection.ts';
import { MEASURE_FIELDS, TASK_NAMES, unfitMeasure, type TaskName } from './measures.ts';
import {
  JOB_NAMES,
  MODEL_NAMES,
  OPTIMIZER_NAMES,
  PLANNED_CODECS,
  SCHEDULE_NAMES,
  STRATEGY_NAMES,
  TRANSPORT_NAMES,
  type ModelName,
  type PlannedCodec,
  type StrategyName,
} from './names.ts';
import { FileManifest } from './fileManifest.ts';
import { misfitOf, Topology } from './topology.ts';

export * from './names.ts';

const positiveInteger = (max: number) => v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(max));

/** Each has a GPU device and a copy of the model and the data. */
export const MAX_REPLICAS = 16;

/**
 * Widest hidden layer: its gradient has 13 MB, with which a ring over WebRTC takes seconds a step.
 */
export const MAX_HIDDEN = 4096;

/**
 * Where `mnist`, `images` and `table` take their files from, and `gpt` its text: a folder's URL,
 * but for `mnist` also a file's own, files each tab's user picked, or files that one rank has and
 * the ranks hand on (`spread`), or files of which each tab has its own, and keeps them
 * (`federated`). `digits` draws its own, `gpt` has a text built in, a lesson has none.
 */
const DataSource = v.variant('kind', [
  v.strictObject({ kind: v.literal('synthetic') }),
  v.strictObject({ kind: v.literal('built-in') }),
  v.strictObject({ kind: v.literal('url'), url: v.pipe(v.string(), v.minLength(1), v.maxLength(2048)) }),
  v.strictObject({ kind: v.literal('files') }),
  v.strictObject({ kind: v.literal('shared'), files: FileManifest }),
  v.strictObject({ kind: v.literal('federated') }),
  v.strictObject({ kind: v.literal('none') }),
]);

/** Longest run, minutes: a week. */
export const MAX_MINUTES = 7 * 24 * 60;
/** Wider pictures take a browser longer to decode than to learn from. */
export const MAX_IMAGE_SIDE = 256;

/** What is taken from people's own files; other jobs do not use it. */
const FILE_FIELDS = {
  /** `table`: the column to predict; `null`: the last. */
  target: field(v.nullable(v.pipe(v.string(), v.minLength(1), v.maxLength(200))), null, {
    value: 'column',
    help: 'the column to predict (table; default: the last)',
  }),
  /** `table`: what to learn of it; `null`: as its values suggest. */
  task: field(v.nullable(v.picklist(TASK_NAMES)), null, {
    value: 'name',
    help: 'what to learn of it (table; default: as its values suggest)',
  }),
  /**
   * `images`: pixels per side that pictures are brought to, and 1 channel (grey) or 3. Arrays of
   * numbers stay as they are.
   */
  side: field(v.pipe(v.number(), v.integer(), v.minValue(8), v.maxValue(MAX_IMAGE_SIDE)), 32, {
    value: 'pixels',
    help: 'what pictures are brought to (images)',
  }),
  channels: field(v.picklist([1, 3]), 3, { value: 'n', help: '1 for grey, 3 for colours (images)' }),
};

/** How a model is trained, whatever model it is. */
const PLAN_FIELDS = {
  optimizer: field(v.picklist(OPTIMIZER_NAMES), 'adam', { value: 'name', help: 'which optimizer' }),
  learningRate: field(v.pipe(v.number(), v.finite(), v.gtValue(0), v.maxValue(10)), 0.002, {
    ...{ name: 'lr', value: 'rate', help: 'learning rate' },
  }),
  /** Samples per rank and step. */
  batchSize: field(positiveInteger(4096), 32, { name: 'batch', value: 'n', help: 'samples per tab and step' }),
  /** Passes over the training data. */
  epochs: field(positiveInteger(1000), 1, { value: 'n', help: 'passes over the training data' }),
  /** Stop after this many steps, if the passes are not over before. */
  maxSteps: field(v.nullable(positiveInteger(10_000_000)), null, {
    ...{ name: 'steps', value: 'n', help: 'stop after so many steps' },
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
const RANGE_TEST_STEPS = { least: 20, usual: 100, most: 1000 };

const FITTING_RANGE_TEST =
  `range-test goes with the strategy ddp, and with maxSteps of ${RANGE_TEST_STEPS.least} to ${RANGE_TEST_STEPS.most}: what it finds ` +
  'with the ring holds for parameter-server and data-parallel, too';

/** Only where all ranks take every step together do all know its loss. */
function fitsRangeTest(plan: { schedule: string; strategy: string; maxSteps: number | null }): boolean {
  const { schedule, strategy, maxSteps } = plan;
  const { least, most } = RANGE_TEST_STEPS;
  const isLong = maxSteps !== null && maxSteps >= least && maxSteps <= most;
  return schedule !== 'range-test' || (strategy === 'ddp' && isLong);
}

const FITTING_CODEC = 'ring takes every codec, diloco takes fp16 and int8, and other strategies take fp32 only';

const TrainingPlan = v.pipe(
  v.strictObject(schemasOf(PLAN_FIELDS)),
  v.check(({ strategy, codec }) => codecsOf(strategy).includes(codec), FITTING_CODEC),
  v.check((plan) => fitsRangeTest(plan), FITTING_RANGE_TEST),
);
export type TrainingPlan = v.InferOutput<typeof TrainingPlan>;

/** Every field of a job, in the order in which files and the command line's help have them. */
export const FIELDS = {
  job: field(v.picklist(JOB_NAMES), 'digits', { value: 'name', help: 'what to train' }),
  /** One of ours by its name, or layers. */
  model: field(
    v.lazy((model) => (typeof model === 'object' && model !== null ? Topology : v.picklist(MODEL_NAMES))),
    'mlp',
    { value: 'name', help: 'which model', choices: MODEL_NAMES },
  ),
  /** Units of the mlp's hidden layer. */
  hidden: field(positiveInteger(MAX_HIDDEN), 64, { value: 'n', help: "units of the mlp's hidden layer" }),
  gpt: field(GptModel, defaultValuesOf(GPT_FIELDS)),
  ...PLAN_FIELDS,
  ...MEASURE_FIELDS,
  data: field(DataSource, { kind: 'synthetic' }),
  ...FILE_FIELDS,
  /** Workers in the one tab of `data-parallel`. */
  replicas: field(positiveInteger(MAX_REPLICAS), 4, { value: 'n', help: 'workers in the one tab (data-parallel)' }),
  transport: field(v.picklist(TRANSPORT_NAMES), 'webrtc', {
    value: 'name',
    help: 'how tabs of one browser are linked; auto: by message ports',
  }),
};

/** The kinds of data that jobs have. */
const DATA_OF: Record<(typeof JOB_NAMES)[number], readonly string[]> = {
  digits: ['synthetic'],
  mnist: ['url', 'files', 'shared'],
  images: ['url', 'files', 'shared', 'federated'],
  table: ['url', 'files', 'shared', 'federated'],
  gpt: ['built-in', 'url', 'files', 'shared', 'federated'],
  lesson: ['none'],
};

/** Whether the job learns to read digits, which people can then draw for it. */
export function learnsDigits(job: (typeof JOB_NAMES)[number]): boolean {
  return job === 'digits' || job === 'mnist';
}

/** Jobs that learn from files that somebody gives them. */
export type FilesJob = 'mnist' | 'images' | 'table' | 'gpt';

export function takesFiles(job: (typeof JOB_NAMES)[number]): job is FilesJob {
  return readsFiles(job) || job === 'gpt';
}

/** Whether each tab's people choose files, be it the same ones or their own. */
export function isChosenByTabs({ kind }: JobSpec['data']): boolean {
  return kind === 'files' || kind === 'federated';
}

/** Whether the job learns from such files and from nothing else. */
export function readsFiles(job: (typeof JOB_NAMES)[number]): job is Exclude<FilesJob, 'gpt'> {
  return job === 'mnist' || job === 'images' || job === 'table';
}

/** What the job learns of its samples; `null`: files say, or nothing is learned. */
function taskOf({ job, task }: { job: (typeof JOB_NAMES)[number]; task: TaskName | null }): TaskName | null {
  if (job === 'lesson') return null;
  return job === 'table' ? task : 'classification';
}

export const JobSpec = v.pipe(
  fieldsOf(schemasOf(FIELDS)),
  v.check(
    ({ job, data }) => DATA_OF[job].includes(data.kind),
    'digits draws its own data; mnist needs data of kind "url", "files" or "spread"; images and table take these and "federated", gpt ' +
      'these four and "built-in"; the lesson has none',
  ),
  v.check(
    ({ data, strategy }) => !['shared', 'federated'].includes(data.kind) || strategy !== 'data-parallel',
    'workers in one tab have its files: data-parallel takes data of kind "files"',
  ),
  v.check(
    ({ job, data, gpt }) => job !== 'gpt' || data.kind !== 'federated' || gpt.tokens === 'characters',
    'byte pairs are those of one text, and here every tab has its own: take characters as tokens',
  ),
  v.check(
    ({ job, model }) => job !== 'table' || model !== 'cnn',
    'the rows of a table are for the model mlp, or for layers',
  ),
  v.check(
    ({ job, model }) => typeof model === 'string' || (job !== 'gpt' && job !== 'lesson'),
    'layers are for the jobs digits, mnist, images and table',
  ),
  v.rawCheck(({ dataset, addIssue }) => {
    if (!dataset.typed || dataset.issues) return;
    const { model, job } = dataset.value;
    if (typeof model === 'string' || !learnsDigits(job)) return;
    const problem = misfitOf(model, `samples of ${job}`, [IMAGE_SIDE, IMAGE_SIDE, 1], 10);
    if (problem !== null) addIssue({ message: problem.message, path: issuePath(['model', ...problem.path]) });
  }),
  v.rawCheck(({ dataset, addIssue }) => {
    if (!dataset.typed || dataset.issues) return;
    const task = taskOf(dataset.value);
    const problem = task && unfitMeasure(dataset.value, task);
    if (problem) addIssue({ message: problem.message, path: issuePath(problem.path) });
  }),
  v.check(({ strategy, codec }) => codecsOf(strategy).includes(codec), FITTING_CODEC),
  v.check((plan) => fitsRangeTest(plan), FITTING_RANGE_TEST),
  v.check(({ job, strategy }) => job !== 'lesson' || strategy === 'ddp', 'the lesson goes with the strategy ddp'),
);

export type JobSpec = v.InferOutput<typeof JobSpec>;

export const JOB_FIELDS = Object.keys(FIELDS) as (keyof JobSpec)[];

export type JobName = JobSpec['job'];

const DEFAULT_PLAN: TrainingPlan = defaultValuesOf(PLAN_FIELDS);

/** What is trained, for people: `digits/mlp`, and `gpt`, which has one model. */
export function nameOfJob({ job, model }: Pick<JobSpec, 'job' | 'model'>): string {
  return job === 'gpt' ? job : `${job}/${kindOfModel(model)}`;
}

/** A model's name, or that it is somebody's own. */
export function kindOfModel(model: JobSpec['model']): ModelName | 'own' {
  return typeof model === 'string' ? model : 'own';
}

/**
 * Whether ranks may come and go in a run: strategies whose ranks are equal after every step, and
 * hold all that a joiner needs.
 */
export function isElastic({ strategy }: Pick<JobSpec, 'strategy'>): boolean {
  return strategy === 'ddp';
}

/**
 * Whether a run ends with a model that has learned something: neither a lesson does, nor a run that
 * looks for a rate.
 */
export function keepsModel({ job, schedule }: Pick<JobSpec, 'job' | 'schedule'>): boolean {
  return job !== 'lesson' && schedule !== 'range-test';
}

export const DEFAULT_JOB: JobSpec = defaultValuesOf(FIELDS);

/** What the job `gpt` has in place of {@link DEFAULT_JOB}'s: as language models are trained. */
const GPT_PLAN = {
  ...{ data: { kind: 'built-in' }, optimizer: 'adamw', schedule: 'cosine', warmupSteps: 20, clipNorm: 1 },
  ...{ batchSize: PRESETS.tiny.batchSize, learningRate: PRESETS.tiny.learningRate },
  // A short text has short passes.
  ...{ epochs: 1000, maxSteps: 1000 },
} as const satisfies Partial<JobSpec>;

/** What a job has where nothing else is said. */
export function defaultsOf(job: unknown, strategy: unknown, schedule?: unknown): JobSpec {
  if (schedule === 'range-test') return { ...defaultsOf(job, strategy), maxSteps: RANGE_TEST_STEPS.usual };
  const plan = { ...DEFAULT_JOB, optimizer: defaultOptimizer(strategy) };
  if (job === 'gpt') return { ...plan, ...GPT_PLAN, job };
  // What people bring is small: one pass over two hundred rows is seven steps, after which nothing
  // is learned.
  if (job === 'images' || job === 'table') return { ...plan, job, epochs: 20 };
  return job === 'lesson' ? { ...plan, job, data: { kind: 'none' } } : plan;
}

/**
 * The codecs that a strategy takes. What DiLoCo exchanges is a gradient of a kind, how far ranks
 * have come; parameters, which others exchange, would be rounded for good.
 */
export function codecsOf(strategy: StrategyName): readonly PlannedCodec[] {
  if (strategy === 'ddp') return PLANNED_CODECS;
  return strategy === 'diloco' ? ['fp32', 'fp16', 'int8'] : ['fp32'];
}

/** DiLoCo's inner optimizer is AdamW, as in its paper. */
export function defaultOptimizer(strategy: unknown): JobSpec['optimizer'] {
  return strategy === 'diloco' ? 'adamw' : DEFAULT_PLAN.optimizer;
}

/**
 * Fills what `fields` leaves out from the defaults of its job and strategy, and checks the whole.
 *
 * @throws UsageError naming the first field that is wrong and what it may be.
 */
export function parseJob(fields: Record<string, unknown>): JobSpec {
  const checked = checkJob(fields);
  if ('job' in checked) return checked.job;
  throw new UsageError(`The job is not valid: ${sentenceOf(checked.problem)}.`);
}

/** Like {@link parseJob}, for who says what is wrong in words of its own. */
export function checkJob(fields: Record<string, unknown>): { job: JobSpec } | { problem: Problem } {
  const { job, strategy, schedule } = fields;
  const result = v.safeParse(JobSpec, { ...defaultsOf(job, strategy, schedule), ...fields });
  return result.success ? { job: result.output } : { problem: problemOf(result.issues) };
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
