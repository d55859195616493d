/** The options of the job form and the changes that they make; pure. */
import { PRESET_NAMES, PRESETS, type PresetName } from '../../spec/gpt.ts';
import {
  checkJob,
  DEFAULT_JOB,
  defaultsOf,
  JOB_FIELDS,
  keepsModel,
  learnsDigits,
  readsFiles,
  type JobSpec,
  type StrategyName,
} from '../../spec/job.ts';
import { messages } from '../locales/index.ts';

/** Learning rates that train both models well. */
const USUAL_RATE: Record<JobSpec['optimizer'], number> = {
  sgd: 0.1,
  momentum: 0.05,
  nesterov: 0.05,
  adam: 0.002,
  adamw: 0.002,
};

/**
 * Another job has its own defaults, except for values that somebody set, and its own kind of data.
 * Data of mnist comes from `folder`, if a server has one, else from files of every tab.
 */
export function withJob(spec: JobSpec, job: JobSpec['job'], folder: string | null): JobSpec {
  if (job === spec.job) return spec;
  const [before, usual] = [spec.job, job].map((one) => defaultsOf(one, spec.strategy)) as [JobSpec, JobSpec];
  const untouched = JOB_FIELDS.filter((field) => spec[field] === before[field]);
  const { target, task, side, channels, loss, metrics } = usual;
  const planned = {
    ...spec,
    ...Object.fromEntries(untouched.map((field) => [field, usual[field]])),
    job,
    model: modelFor(job, spec),
    target,
    task,
    side,
    channels,
    loss,
    metrics,
  } as const;
  if (job === 'lesson') return { ...withStrategy(planned, 'ddp'), data: usual.data };
  if (!readsFiles(job)) return { ...planned, data: usual.data };
  // A server's folder has IDX files, unless it was started for another job.
  return { ...planned, data: job === 'mnist' && folder !== null ? { kind: 'url', url: folder } : { kind: 'files' } };
}

/** Layers fit samples of one shape, which two jobs share. */
function modelFor(job: JobSpec['job'], { job: before, model }: JobSpec): JobSpec['model'] {
  if (typeof model !== 'string') return learnsDigits(before) && learnsDigits(job) ? model : 'mlp';
  return job === 'table' ? 'mlp' : model;
}

/** A language model of another size, with its batch size and learning rate. */
export function withPreset(spec: JobSpec, name: PresetName): JobSpec {
  const { model, batchSize, learningRate } = PRESETS[name];
  return { ...spec, batchSize, learningRate, gpt: { ...spec.gpt, ...model } };
}

/** The preset of a language model; `null`: its sizes are custom. */
export function presetOf({ gpt }: Pick<JobSpec, 'gpt'>): PresetName | null {
  const isOf = ({ model }: (typeof PRESETS)[PresetName]): boolean =>
    Object.entries(model).every(([size, value]) => gpt[size as keyof typeof model] === value);
  return PRESET_NAMES.find((name) => isOf(PRESETS[name])) ?? null;
}

/** Kinds of data to choose from. */
export type DataSourceName = Exclude<JobSpec['data']['kind'], 'synthetic' | 'none'>;

/** Data of another kind: no files yet, and a folder is `folder` until another is typed. */
export function withSource(spec: JobSpec, kind: DataSourceName, folder: string): JobSpec {
  if (kind === spec.data.kind) return spec;
  if (kind === 'url') return { ...spec, data: { kind, url: folder } };
  return { ...spec, data: kind === 'shared' ? { kind, files: [] } : { kind } };
}

/** Another optimizer has its own default learning rate, unless somebody set one. */
export function withOptimizer(spec: JobSpec, optimizer: JobSpec['optimizer']): JobSpec {
  const untouched = spec.learningRate === USUAL_RATE[spec.optimizer];
  return { ...spec, optimizer, learningRate: untouched ? USUAL_RATE[optimizer] : spec.learningRate };
}

/**
 * A range test has its own default number of steps, unless somebody set a number that is valid for
 * both schedules.
 */
export function withSchedule(spec: JobSpec, schedule: JobSpec['schedule']): JobSpec {
  const [before, usual] = [spec.schedule, schedule].map((one) => defaultsOf(spec.job, spec.strategy, one).maxSteps);
  const isUsual = spec.maxSteps === before || 'problem' in checkJob({ ...spec, schedule });
  return { ...spec, schedule, maxSteps: isUsual ? usual! : spec.maxSteps };
}

/** Trains with a rate that was found, on the job's default schedule. */
export function withRate(spec: JobSpec, learningRate: number): JobSpec {
  return { ...withSchedule(spec, defaultsOf(spec.job, spec.strategy).schedule), learningRate };
}

/**
 * Another strategy has its own default optimizer, unless somebody chose one, and none of the other
 * strategy's settings. Workers of one tab use its files.
 */
export function withStrategy(spec: JobSpec, strategy: StrategyName): JobSpec {
  if (strategy === spec.strategy) return spec;
  const { syncEvery, staleness, replicas, codec } = DEFAULT_JOB;
  const [before, usual] = [spec.strategy, strategy].map((one) => defaultsOf(spec.job, one).optimizer);
  const optimized = spec.optimizer === before ? withOptimizer(spec, usual!) : spec;
  // Only DDP has a range test.
  const scheduled = strategy === 'ddp' || keepsModel(spec) ? optimized : withRate(optimized, optimized.learningRate);
  const next = { ...scheduled, strategy, syncEvery, staleness, replicas, codec };
  const isOfOthers = spec.data.kind === 'shared' || spec.data.kind === 'federated';
  return strategy === 'data-parallel' && isOfOthers ? { ...next, data: { kind: 'files' } } : next;
}

/** What computes a part of each step: a tab or a worker. */
export function workerWord({ strategy }: JobSpec): 'tab' | 'worker' {
  return strategy === 'data-parallel' ? 'worker' : 'tab';
}

/** The job in a line. */
export function describeJob(spec: JobSpec): string {
  return messages.value.job.describe(spec, workerWord(spec));
}
