/** What the job form offers, and the changes it makes; pure. */
import { DEFAULT_JOB, defaultOptimizer, type JobSpec, type StrategyName } from '../protocol/job.ts';
import { words } from './words/index.ts';

/** Rates that train both models well. */
const USUAL_RATE: Record<JobSpec['optimizer'], number> = {
  sgd: 0.1,
  momentum: 0.05,
  nesterov: 0.05,
  adam: 0.002,
  adamw: 0.002,
};

/** Another job brings its own kind of data: from `folder`, if a server offers one, else files that every tab picks. */
export function withJob(spec: JobSpec, job: JobSpec['job'], folder: string | null): JobSpec {
  if (job === spec.job) return spec;
  if (job === 'digits') return { ...spec, job, data: { kind: 'drawn' } };
  if (job === 'lesson') return { ...withStrategy(spec, 'ring'), job, data: { kind: 'none' } };
  // A server's folder has IDX files, unless it was started for another job.
  if (job === 'mnist')
    return { ...spec, job, data: folder === null ? { kind: 'files' } : { kind: 'url', url: folder } };
  const { target, task, side, channels } = DEFAULT_JOB;
  const asked = { target, task, side, channels, data: { kind: 'files' } } as const;
  return { ...spec, job, model: job === 'table' ? 'mlp' : spec.model, ...asked };
}

/** Where data may come from, of jobs that have a choice. */
export type DataSourceName = 'files' | 'spread' | 'url';

/** Data from elsewhere: nobody has chosen files yet, and a folder is `folder` until another is typed. */
export function withSource(spec: JobSpec, kind: DataSourceName, folder: string): JobSpec {
  if (kind === spec.data.kind) return spec;
  if (kind === 'url') return { ...spec, data: { kind, url: folder } };
  return { ...spec, data: kind === 'spread' ? { kind, files: [] } : { kind } };
}

/** Another optimizer brings its usual learning rate, unless somebody set one. */
export function withOptimizer(spec: JobSpec, optimizer: JobSpec['optimizer']): JobSpec {
  const untouched = spec.learningRate === USUAL_RATE[spec.optimizer];
  return { ...spec, optimizer, learningRate: untouched ? USUAL_RATE[optimizer] : spec.learningRate };
}

/**
 * Another strategy brings its own optimizer, unless somebody chose one, and none of the last one's settings. One tab's workers have
 * its files.
 */
export function withStrategy(spec: JobSpec, strategy: StrategyName): JobSpec {
  if (strategy === spec.strategy) return spec;
  const { syncEvery, staleness, replicas, codec } = DEFAULT_JOB;
  const untouched = spec.optimizer === defaultOptimizer(spec.strategy);
  const optimized = untouched ? withOptimizer(spec, defaultOptimizer(strategy)) : spec;
  const next = { ...optimized, strategy, syncEvery, staleness, replicas, codec };
  return strategy === 'data-parallel' && spec.data.kind === 'spread' ? { ...next, data: { kind: 'files' } } : next;
}

/** Who computes a share of each step. */
export function workerWord({ strategy }: JobSpec): 'tab' | 'worker' {
  return strategy === 'data-parallel' ? 'worker' : 'tab';
}

/** What is trained and how, in a line. */
export function describeJob(spec: JobSpec): string {
  return words.value.job.describe(spec, workerWord(spec));
}
