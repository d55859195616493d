/**
 * The job of a room: what to train, on which data, and how. A job is data and never contains code.
 * Every rank runs the job of rank 0.
 */
import * as v from 'valibot';
import { UsageError } from '../util/errors.ts';
import {
  crossFieldCheck,
  defaultValuesOf,
  field,
  strictFieldsSchema,
  namesOrNullSchema,
  firstSchemaProblem,
  schemasOfFields,
  fieldProblemSentence,
  type FieldProblem,
} from './fields.ts';
import { GPT_FIELDS, GptModel, GPT_PRESETS } from './gpt.ts';
import { BUILT_IN_IMAGE_SIDE } from './inspection.ts';
import { LOSS_AND_METRICS_FIELDS, TASK_NAMES, lossOrMetricProblem, type TaskName } from './measures.ts';
import {
  AUGMENT_NAMES,
  JOB_NAMES,
  BUILT_IN_MODEL_NAMES,
  TEXT_ENCODINGS,
  TRANSPORT_NAMES,
  type BuiltInModelName,
} from './names.ts';
import { FileManifest } from './fileManifest.ts';
import { isPipelineJob, PIPELINE_FIELDS } from './pipeline.ts';
import {
  strategyFactsOf,
  PLAN_FIELDS,
  TRAINING_PLAN_FEATURES,
  trainingPlanProblem,
  positiveIntegerSchema,
  RANGE_TEST_STEPS,
  strategyProblem,
  type PlanFeatures,
} from './plan.ts';
import { STRATEGIES } from './strategies.ts';
import { whyModelDoesNotFitSamples, whyModelIsTooLarge, ModelTopology } from './topology.ts';

export * from './codecs.ts';
export * from './names.ts';
export * from './strategies.ts';

/** The widest hidden layer. Its gradient is 13 MB, which takes seconds per step over WebRTC. */
export const MAX_HIDDEN_WIDTH = 4096;

/**
 * The source of a job's data. `synthetic`: the job `digits` generates its data. `built-in`: the job
 * `gpt` includes a text. `none`: a lesson has no data. The other kinds are for `mnist`, `images`,
 * `table` and `gpt`. `url`: the address of a folder or, for jobs other than `mnist`, of a single
 * file. `files`: the same files, chosen in each tab. `shared`: files of one rank, distributed to
 * all. `federated` (not for `mnist`): different files in each tab, which never leave the tab.
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

/**
 * The largest side of pictures, in pixels. Larger pictures would take longer to decode than to
 * train on.
 */
export const MAX_IMAGE_SIDE = 256;

/** Fields about people's own files. Jobs without such files ignore these fields. */
const FILE_FIELDS = {
  /** `table`: the column to predict; `null`: the last column. */
  target: field(v.nullable(v.pipe(v.string(), v.minLength(1), v.maxLength(200))), null, {
    value: 'column',
    help: 'the column to predict (table; default: the last column)',
  }),
  /** `table`: the task; `null`: the task that the column's values suggest. */
  task: field(v.nullable(v.picklist(TASK_NAMES)), null, {
    value: 'name',
    help: 'task (table; default: suggested by the values of the column)',
  }),
  /** `table` and `gpt`: the encoding of the files. */
  encoding: field(v.picklist(TEXT_ENCODINGS), 'utf-8', {
    value: 'name',
    help: 'encoding of files (table, gpt); UTF-16 is recognized',
  }),
  /**
   * `images`: pictures are scaled to `side` x `side` pixels with 1 (grey) or 3 channels. Arrays of
   * numbers are not scaled.
   */
  side: field(v.pipe(v.number(), v.integer(), v.minValue(8), v.maxValue(MAX_IMAGE_SIDE)), 32, {
    value: 'pixels',
    help: 'side to which pictures are scaled, pixels (images)',
  }),
  channels: field(v.picklist([1, 3]), 3, {
    value: 'n',
    help: 'channels of pictures: 1 for grey, 3 for colour (images)',
  }),
};

/** Every field of a job. Job files and the command line's help use the same order. */
export const JOB_FIELD_DECLARATIONS = {
  job: field(v.picklist(JOB_NAMES), 'digits', { value: 'name', help: 'what to train' }),
  /** The name of a built-in model, or a topology of layers. */
  model: field(
    v.lazy((model) => (typeof model === 'object' && model !== null ? ModelTopology : v.picklist(BUILT_IN_MODEL_NAMES))),
    'mlp',
    { value: 'name', help: 'which model', choices: BUILT_IN_MODEL_NAMES },
  ),
  /** Units of the mlp's hidden layer. */
  hidden: field(positiveIntegerSchema(MAX_HIDDEN_WIDTH), 64, { value: 'n', help: "units of the mlp's hidden layer" }),
  gpt: field(GptModel, defaultValuesOf(GPT_FIELDS)),
  ...PLAN_FIELDS,
  ...PIPELINE_FIELDS,
  ...LOSS_AND_METRICS_FIELDS,
  data: field(DataSource, { kind: 'synthetic' }),
  ...FILE_FIELDS,
  /** Random changes of training pictures; `null`: none. */
  augment: field(namesOrNullSchema(AUGMENT_NAMES, 'name at least one change, or use null for none'), null, {
    value: 'names',
    help: `random changes of training pictures, separated by commas (digits, mnist, images: ${AUGMENT_NAMES.join(', ')})`,
  }),
  transport: field(v.picklist(TRANSPORT_NAMES), 'auto', {
    value: 'name',
    help: 'how tabs of one browser are linked; auto: by message ports; webrtc: like tabs of different machines',
  }),
};

const JobFields = strictFieldsSchema(schemasOfFields(JOB_FIELD_DECLARATIONS));
type JobFields = v.InferOutput<typeof JobFields>;

const DATA_OF: Record<(typeof JOB_NAMES)[number], readonly string[]> = {
  digits: ['synthetic'],
  mnist: ['url', 'files', 'shared'],
  images: ['url', 'files', 'shared', 'federated'],
  table: ['url', 'files', 'shared', 'federated'],
  gpt: ['built-in', 'url', 'files', 'shared', 'federated'],
  lesson: ['none'],
};

/** Returns whether a job can train on data of this kind. */
export function jobAcceptsData({ job }: Pick<JobSpec, 'job'>, kind: string): boolean {
  return DATA_OF[job].includes(kind);
}

/** Returns whether the job trains on digits. People can draw a digit to try such a model. */
export function learnsDigits(job: (typeof JOB_NAMES)[number]): boolean {
  return job === 'digits' || job === 'mnist';
}

/** Returns whether the job trains on pictures. The job `images` may also have rows of numbers. */
export function learnsPictures(job: (typeof JOB_NAMES)[number]): boolean {
  return learnsDigits(job) || job === 'images';
}

/** Jobs that can train on people's files. */
export type FilesJob = 'mnist' | 'images' | 'table' | 'gpt';

export function jobCanUseFiles(job: (typeof JOB_NAMES)[number]): job is FilesJob {
  return jobNeedsFiles(job) || job === 'gpt';
}

/** Returns whether the job reads files of text, which have an encoding. */
export function jobReadsText({ job, data }: Pick<JobSpec, 'job' | 'data'>): boolean {
  return job === 'table' || (job === 'gpt' && data.kind !== 'built-in');
}

/**
 * Returns whether a user chooses files in each tab. The files may be the same or different in each
 * tab.
 */
export function isDataChosenInTabs({ kind }: JobSpec['data']): boolean {
  return kind === 'files' || kind === 'federated';
}

/** Returns whether the job can train only on people's files. */
export function jobNeedsFiles(job: (typeof JOB_NAMES)[number]): job is Exclude<FilesJob, 'gpt'> {
  return job === 'mnist' || job === 'images' || job === 'table';
}

/** Returns the task of the job; `null` if the files determine it, or if nothing is learned. */
function taskOf({ job, task }: { job: (typeof JOB_NAMES)[number]; task: TaskName | null }): TaskName | null {
  if (job === 'lesson') return null;
  return job === 'table' ? task : 'classification';
}

/** The features of a job that not every strategy supports. */
const FEATURES: PlanFeatures<JobFields> = {
  ...TRAINING_PLAN_FEATURES,
  lesson: { path: ['job'], isIn: ({ job }) => job === 'lesson' },
  federated: { path: ['data', 'kind'], isIn: ({ data }) => data.kind === 'federated' },
  branches: {
    path: ['model', 'class_name'],
    isIn: ({ model }) => typeof model === 'object' && model.class_name === 'Functional',
  },
};

export const JobSpec = v.pipe(
  JobFields,
  v.check(
    ({ job, data }) => DATA_OF[job].includes(data.kind),
    'digits has data of kind "synthetic"; mnist "url", "files" or "shared"; images and table "url", "files", "shared" or "federated"; ' +
      'gpt "url", "files", "shared", "federated" or "built-in"; lesson "none"',
  ),
  v.check(
    ({ job, data, gpt }) => job !== 'gpt' || data.kind !== 'federated' || gpt.tokens === 'characters',
    'byte pairs are learned from one text, but here every tab has its own text: choose characters as tokens',
  ),
  v.check(({ job, model }) => job !== 'table' || model !== 'cnn', 'tables need the model mlp or layers'),
  v.check(
    ({ job, model }) => typeof model === 'string' || (job !== 'gpt' && job !== 'lesson'),
    'only the jobs digits, mnist, images and table support layers',
  ),
  crossFieldCheck(({ job, augment }: JobFields) =>
    augment === null || learnsPictures(job)
      ? null
      : {
          path: ['augment'],
          message: `the job ${job} has no pictures to change: remove it, or choose the job digits, mnist or images`,
        },
  ),
  crossFieldCheck(({ model, stages }: JobFields) =>
    inModel(typeof model === 'string' ? null : whyModelIsTooLarge(model, stages)),
  ),
  crossFieldCheck(({ model, job }: JobFields) => {
    if (typeof model === 'string' || !learnsDigits(job)) return null;
    return inModel(
      whyModelDoesNotFitSamples(model, `samples of ${job}`, [BUILT_IN_IMAGE_SIDE, BUILT_IN_IMAGE_SIDE, 1], 10),
    );
  }),
  crossFieldCheck((job: JobFields) => {
    const task = taskOf(job);
    return task && lossOrMetricProblem(job, task);
  }),
  crossFieldCheck(
    (job: JobFields) => strategyProblem(job, JOB_FIELD_DECLARATIONS, FEATURES) ?? trainingPlanProblem(job),
  ),
  crossFieldCheck((job: JobFields) =>
    isPipelineJob(job) && job.stages === 1 ? { path: ['stages'], message: 'a pipeline has at least 2 stages' } : null,
  ),
);

/** Converts a problem in a model to a problem in the job that contains the model. */
function inModel(problem: FieldProblem | null): FieldProblem | null {
  return problem && { ...problem, path: ['model', ...problem.path] };
}

export type JobSpec = v.InferOutput<typeof JobSpec>;

export const JOB_FIELD_NAMES = Object.keys(JOB_FIELD_DECLARATIONS) as (keyof JobSpec)[];

export type JobName = JobSpec['job'];

/**
 * Returns the job's name for people: `digits/mlp` for example, or only `gpt`, because that job has
 * one model.
 */
export function jobDisplayName({ job, model }: Pick<JobSpec, 'job' | 'model'>): string {
  return job === 'gpt' ? job : `${job}/${modelNameOrOwn(model)}`;
}

/** Returns a model's name; `own` for a custom model. */
export function modelNameOrOwn(model: JobSpec['model']): BuiltInModelName | 'own' {
  return typeof model === 'string' ? model : 'own';
}

/** Returns whether ranks may join and leave during a run. */
export function isElasticJob({ strategy }: Pick<JobSpec, 'strategy'>): boolean {
  return STRATEGIES[strategy].isElastic;
}

/** Returns whether a run can be saved as a checkpoint. */
export function canJobSaveCheckpoints({ strategy }: Pick<JobSpec, 'strategy'>): boolean {
  return STRATEGIES[strategy].hasCheckpoints;
}

/** Returns whether a run ends with a trained model. Lessons and measurements do not. */
export function endsWithModel(job: Pick<JobSpec, 'job' | 'measure'>): boolean {
  return job.job !== 'lesson' && job.measure === null;
}

export const DEFAULT_JOB: JobSpec = defaultValuesOf(JOB_FIELD_DECLARATIONS);

/**
 * The defaults of the job `gpt` that differ from {@link DEFAULT_JOB}: common values for language
 * models.
 */
const GPT_PLAN = {
  data: { kind: 'built-in' },
  optimizer: 'adamw',
  schedule: 'cosine',
  warmupSteps: 20,
  clipNorm: 1,
  batchSize: GPT_PRESETS.tiny.batchSize,
  learningRate: GPT_PRESETS.tiny.learningRate,
  // A short text has short epochs, so many epochs are needed.
  epochs: 1000,
  maxSteps: 1000,
} as const satisfies Partial<JobSpec>;

/** Returns the default fields for this job, strategy and measurement. */
export function jobDefaultsFor(job: unknown, strategy: unknown, measure: unknown = null): JobSpec {
  if (measure === 'learning-rate') return { ...jobDefaultsFor(job, strategy), maxSteps: RANGE_TEST_STEPS.usual };
  const { optimizer, stages, languageModel } = strategyFactsOf(strategy);
  const plan = { ...DEFAULT_JOB, optimizer, stages };
  if (job === 'gpt') return { ...plan, ...GPT_PLAN, job, ...languageModel };
  // People's own data sets are small. With 200 training samples, one epoch has seven steps, which
  // is too few.
  if (job === 'images' || job === 'table') return { ...plan, job, epochs: 20 };
  // A lesson shows what tabs of different machines send each other, so its default is WebRTC.
  return job === 'lesson' ? { ...plan, job, data: { kind: 'none' }, transport: 'webrtc' } : plan;
}

/**
 * Adds the defaults of the job and strategy to `fields`, and validates the result.
 *
 * @throws UsageError with the first invalid field and its valid values.
 */
export function parseJob(fields: Record<string, unknown>): JobSpec {
  const checked = parseJobOrProblem(fields);
  if ('job' in checked) return checked.job;
  throw new UsageError(`The job is not valid: ${fieldProblemSentence(checked.problem)}.`);
}

/**
 * Does the same as {@link parseJob}, but returns the problem instead of throwing an error, for
 * callers that write their own error messages.
 */
export function parseJobOrProblem(fields: Record<string, unknown>): { job: JobSpec } | { problem: FieldProblem } {
  const { job, strategy, measure } = fields;
  const result = v.safeParse(JobSpec, { ...jobDefaultsFor(job, strategy, measure), ...fields });
  return result.success ? { job: result.output } : { problem: firstSchemaProblem(result.issues) };
}
