/** What the job form offers, and the changes it makes; pure. */
import type { JobSpec } from '../protocol/job.ts';
import { formatCount, plural } from './format.ts';

export const JOBS: Record<JobSpec['job'], string> = {
  digits: 'digits (drawn here)',
  mnist: 'mnist (handwritten)',
};

export const MODELS: Record<JobSpec['model'], string> = {
  mlp: 'mlp (quick)',
  cnn: 'cnn (slower, better)',
};

export const OPTIMIZERS: Record<JobSpec['optimizer'], string> = {
  sgd: 'SGD',
  momentum: 'SGD with momentum',
  nesterov: 'SGD with Nesterov momentum',
  adam: 'Adam',
  adamw: 'AdamW',
};

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
  return { ...spec, job, data: folder === null ? { kind: 'files' } : { kind: 'url', url: folder } };
}

/** Another optimizer brings its usual learning rate, unless somebody set one. */
export function withOptimizer(spec: JobSpec, optimizer: JobSpec['optimizer']): JobSpec {
  const untouched = spec.learningRate === USUAL_RATE[spec.optimizer];
  return { ...spec, optimizer, learningRate: untouched ? USUAL_RATE[optimizer] : spec.learningRate };
}

/** `digits, mlp, 1 pass, 32 samples a step and tab`. */
export function describeJob(spec: JobSpec): string {
  const length = spec.maxSteps === null ? '' : `, at most ${formatCount(spec.maxSteps)} steps`;
  return `${plural(spec.epochs, 'pass', 'passes')} over the data${length}, ${spec.batchSize} samples per step and tab, ${OPTIMIZERS[spec.optimizer]} at ${spec.learningRate}`;
}
