/**
 * What a room trains: data, never code. Rank 0's job is what every rank runs.
 */
import * as v from 'valibot';
import { UsageError } from '../util/errors.ts';
import { fieldsOf, issuePath, problemOf, sentenceOf, type Problem } from './fields.ts';
import { GptModel, PRESETS } from './gpt.ts';
import { IMAGE_SIDE } from './learned.ts';
import { measureFields, TASK_NAMES, unfitMeasure, type TaskName } from './measures.ts';
import { SpreadFiles } from './spread.ts';
import { misfitOf, Topology } from './topology.ts';

/**
 * `gpt` learns to write as a text does. `lesson` trains nothing: its ranks add up a few numbers by hand (`lesson.ts`), and what it says of
 * a training is not used.
 */
export const JOB_NAMES = ['digits', 'mnist', 'images', 'table', 'gpt', 'lesson'] as const;
/** Of the jobs that do not write. */
export const MODEL_NAMES = ['mlp', 'cnn'] as const;
export const OPTIMIZER_NAMES = ['sgd', 'momentum', 'nesterov', 'adam', 'adamw'] as const;

/**
 * How the learning rate goes: it stays, or falls as a cosine does to a tenth. A range test is a run that looks for a rate: it tries ever
 * higher ones until the loss explodes, and leaves the model as it was.
 */
export const SCHEDULE_NAMES = ['constant', 'cosine', 'range-test'] as const;

/** How ranks learn together: src/parallel/strategies has a file for each. */
export const STRATEGY_NAMES = [
  'ring',
  'parameter-server',
  'async-parameter-server',
  'data-parallel',
  'local-sgd',
  'diloco',
] as const;

/**
 * How gradients travel, see {@link codecsOf}: `fp16` and `int8` are codecs of an all-reduce, `powersgd` sends thin matrices.
 * From what loses nothing to what loses most.
 */
export const CODEC_NAMES = ['fp32', 'fp16', 'int8', 'powersgd'] as const;

/** What a job may say: with `auto` ranks time their first steps and choose one of the others together. */
export const PLANNED_CODECS = [...CODEC_NAMES, 'auto'] as const;

export type OptimizerName = (typeof OPTIMIZER_NAMES)[number];
export type ScheduleName = (typeof SCHEDULE_NAMES)[number];
export type ModelName = (typeof MODEL_NAMES)[number];
export type StrategyName = (typeof STRATEGY_NAMES)[number];
/** The job's: collectives know of fewer. */
export type JobCodec = (typeof CODEC_NAMES)[number];
export type PlannedCodec = (typeof PLANNED_CODECS)[number];

const positiveInteger = (max: number) => v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(max));

const DEFAULT_HIDDEN = 64;
const DEFAULT_GPT: GptModel = { ...PRESETS.tiny.model, prompt: '\n' };

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

/**
 * Where `mnist`, `images` and `table` take their files from, and `gpt` its text: a folder's URL, but for `mnist` also a file's own, files
 * each tab's user picked, or files that one rank has and the ranks hand on (`spread`), or
 * files of which each tab has its own, and keeps them (`federated`). `digits` draws its own, `gpt` has a text built in,
 * a lesson has none.
 */
const DataSource = v.variant('kind', [
  v.strictObject({ kind: v.literal('drawn') }),
  v.strictObject({ kind: v.literal('built-in') }),
  v.strictObject({ kind: v.literal('url'), url: v.pipe(v.string(), v.minLength(1), v.maxLength(2048)) }),
  v.strictObject({ kind: v.literal('files') }),
  v.strictObject({ kind: v.literal('spread'), files: SpreadFiles }),
  v.strictObject({ kind: v.literal('federated') }),
  v.strictObject({ kind: v.literal('none') }),
]);

/** Longest run, minutes: a week. */
export const MAX_MINUTES = 7 * 24 * 60;
/** Wider pictures take a browser longer to decode than to learn from. */
export const MAX_IMAGE_SIDE = 256;

/** What is taken from people's own files; other jobs do not use it. */
const fileFields = {
  /** `table`: the column to predict; `null`: the last. */
  target: v.optional(v.nullable(v.pipe(v.string(), v.minLength(1), v.maxLength(200))), null),
  /** `table`: what to learn of it; `null`: as its values suggest. */
  task: v.optional(v.nullable(v.picklist(TASK_NAMES)), null),
  /** `images`: pixels per side that pictures are brought to, and 1 channel (grey) or 3. Arrays of numbers stay as they are. */
  side: v.optional(v.pipe(v.number(), v.integer(), v.minValue(8), v.maxValue(MAX_IMAGE_SIDE)), 32),
  channels: v.optional(v.picklist([1, 3]), 3),
};

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
  /** Stop after the step in which so many minutes of training are over, by rank 0's clock. */
  maxMinutes: v.optional(v.nullable(v.pipe(v.number(), v.finite(), v.gtValue(0), v.maxValue(MAX_MINUTES))), null),
  /**
   * Stop after this many tests on held-out samples without a lower loss than before, as Keras's EarlyStopping does, and keep the model
   * that tested best, too; `null`: go on.
   */
  patience: v.optional(v.nullable(positiveInteger(1000)), null),
  schedule: v.optional(v.picklist(SCHEDULE_NAMES), 'constant'),
  /** Steps in which the learning rate rises to what it is, at first. */
  warmupSteps: v.optional(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(1_000_000)), 0),
  /** Longest gradient, by its L2 norm: longer ones are scaled down to it. */
  clipNorm: v.optional(v.nullable(v.pipe(v.number(), v.finite(), v.gtValue(0))), null),
  /** `null`: the optimizer's own. */
  weightDecay: v.optional(v.nullable(v.pipe(v.number(), v.minValue(0), v.maxValue(10))), null),
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

/** Steps of a range test. With fewer a rate is hardly tried, with more it finds the same. */
const RANGE_TEST_STEPS = { least: 20, usual: 100, most: 1000 };

const FITTING_RANGE_TEST =
  `range-test goes with the strategy ring, and with maxSteps of ${RANGE_TEST_STEPS.least} to ${RANGE_TEST_STEPS.most}: what it finds ` +
  'with the ring holds for parameter-server and data-parallel, too';

/** Only where all ranks take every step together do all know its loss. */
function fitsRangeTest(plan: { schedule: string; strategy: string; maxSteps: number | null }): boolean {
  const { schedule, strategy, maxSteps } = plan;
  const { least, most } = RANGE_TEST_STEPS;
  const isLong = maxSteps !== null && maxSteps >= least && maxSteps <= most;
  return schedule !== 'range-test' || (strategy === 'ring' && isLong);
}

const FITTING_CODEC = 'ring takes every codec, diloco takes fp16 and int8, and other strategies take fp32 only';

const TrainingPlan = v.pipe(
  v.strictObject(planFields),
  v.check(({ strategy, codec }) => codecsOf(strategy).includes(codec), FITTING_CODEC),
  v.check((plan) => fitsRangeTest(plan), FITTING_RANGE_TEST),
);
export type TrainingPlan = v.InferOutput<typeof TrainingPlan>;

const JobFields = fieldsOf({
  job: v.picklist(JOB_NAMES),
  /** One of ours by its name, or layers. */
  model: v.lazy((model) => (typeof model === 'object' && model !== null ? Topology : v.picklist(MODEL_NAMES))),
  /** Units of the mlp's hidden layer. */
  hidden: v.optional(positiveInteger(MAX_HIDDEN), DEFAULT_HIDDEN),
  gpt: v.optional(GptModel, DEFAULT_GPT),
  ...planFields,
  ...measureFields,
  data: DataSource,
  ...fileFields,
  /** Workers in the one tab of `data-parallel`. */
  replicas: positiveInteger(MAX_REPLICAS),
  transport: v.optional(v.picklist(TRANSPORT_NAMES), 'webrtc'),
});

/** The kinds of data that jobs have. */
const DATA_OF: Record<(typeof JOB_NAMES)[number], readonly string[]> = {
  digits: ['drawn'],
  mnist: ['url', 'files', 'spread'],
  images: ['url', 'files', 'spread', 'federated'],
  table: ['url', 'files', 'spread', 'federated'],
  gpt: ['built-in', 'url', 'files', 'spread', 'federated'],
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
  JobFields,
  v.check(
    ({ job, data }) => DATA_OF[job].includes(data.kind),
    'digits draws its own data; mnist needs data of kind "url", "files" or "spread"; images and table take these and "federated", gpt ' +
      'these four and "built-in"; the lesson has none',
  ),
  v.check(
    ({ data, strategy }) => !['spread', 'federated'].includes(data.kind) || strategy !== 'data-parallel',
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
  v.check(({ job, strategy }) => job !== 'lesson' || strategy === 'ring', 'the lesson goes with the strategy ring'),
);

export type JobSpec = v.InferOutput<typeof JobSpec>;

/** In the order in which files have them. */
export const JOB_FIELDS = Object.keys(JobFields.entries) as (keyof JobSpec)[];

export type JobName = JobSpec['job'];

const DEFAULT_PLAN: TrainingPlan = {
  optimizer: 'adam',
  learningRate: 0.002,
  batchSize: 32,
  epochs: 1,
  maxSteps: null,
  maxMinutes: null,
  patience: null,
  schedule: 'constant',
  warmupSteps: 0,
  clipNorm: null,
  weightDecay: null,
  seed: 1,
  hashEvery: 20,
  strategy: 'ring',
  syncEvery: null,
  staleness: 4,
  codec: 'fp32',
  errorFeedback: true,
};

/** What is trained, for people: `digits/mlp`, and `gpt`, which has one model. */
export function nameOfJob({ job, model }: Pick<JobSpec, 'job' | 'model'>): string {
  return job === 'gpt' ? job : `${job}/${kindOfModel(model)}`;
}

/** A model's name, or that it is somebody's own. */
export function kindOfModel(model: JobSpec['model']): ModelName | 'own' {
  return typeof model === 'string' ? model : 'own';
}

/** Whether ranks may come and go in a run: strategies whose ranks are equal after every step, and hold all that a joiner needs. */
export function isElastic({ strategy }: Pick<JobSpec, 'strategy'>): boolean {
  return strategy === 'ring';
}

/** Whether a run ends with a model that has learned something: neither a lesson does, nor a run that looks for a rate. */
export function keepsModel({ job, schedule }: Pick<JobSpec, 'job' | 'schedule'>): boolean {
  return job !== 'lesson' && schedule !== 'range-test';
}

export const DEFAULT_JOB: JobSpec = {
  job: 'digits',
  model: 'mlp',
  hidden: DEFAULT_HIDDEN,
  gpt: DEFAULT_GPT,
  ...DEFAULT_PLAN,
  ...{ loss: null, metrics: null },
  data: { kind: 'drawn' },
  ...{ target: null, task: null, side: 32, channels: 3 },
  replicas: 4,
  transport: 'webrtc',
};

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
  // What people bring is small: one pass over two hundred rows is seven steps, after which nothing is learned.
  if (job === 'images' || job === 'table') return { ...plan, job, epochs: 20 };
  return job === 'lesson' ? { ...plan, job, data: { kind: 'none' } } : plan;
}

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
 * @throws UsageError naming the first field that is wrong and what it may be, or that there is none of that name.
 */
export function parsePlan(fields: Record<string, unknown>): TrainingPlan {
  const given = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
  const unknown = Object.keys(given).find((name) => !Object.hasOwn(planFields, name));
  if (unknown !== undefined) {
    throw new UsageError(`Trainer has no option "${unknown}": it has ${Object.keys(planFields).join(', ')}.`);
  }
  const optimizer = defaultOptimizer(given['strategy']);
  const maxSteps = given['schedule'] === 'range-test' ? RANGE_TEST_STEPS.usual : DEFAULT_PLAN.maxSteps;
  const result = v.safeParse(TrainingPlan, { ...DEFAULT_PLAN, optimizer, maxSteps, ...given });
  if (result.success) return result.output;
  throw new UsageError(`Trainer's options are not valid: ${sentenceOf(problemOf(result.issues))}.`);
}
