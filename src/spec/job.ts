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
import { JOB_NAMES, MODEL_NAMES, TRANSPORT_NAMES, type ModelName } from './names.ts';
import { FileManifest } from './fileManifest.ts';
import {
  codecsOf,
  defaultOptimizer,
  FITTING_CODEC,
  FITTING_RANGE_TEST,
  fitsRangeTest,
  PLAN_FIELDS,
  positiveInteger,
  RANGE_TEST_STEPS,
} from './plan.ts';
import { misfitOf, Topology } from './topology.ts';

export * from './names.ts';

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
  data: { kind: 'built-in' },
  optimizer: 'adamw',
  schedule: 'cosine',
  warmupSteps: 20,
  clipNorm: 1,
  batchSize: PRESETS.tiny.batchSize,
  learningRate: PRESETS.tiny.learningRate,
  // A short text has short passes.
  epochs: 1000,
  maxSteps: 1000,
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
