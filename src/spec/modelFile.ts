/** Formats, names and limits of model files. */
import { DataError } from '../util/errors.ts';
import { modelNameOrOwn, type JobSpec } from './job.ts';
import { isPipelineJob } from './pipeline.ts';

/** Formats of the weights alone, which other programs can read. docs/export.md describes them. */
export const WEIGHTS_FORMATS = ['safetensors', 'tfjs', 'keras'] as const;
export type WeightsFormat = (typeof WEIGHTS_FORMATS)[number];

/** All formats. A checkpoint contains everything needed to continue training. */
export type ModelFileFormat = WeightsFormat | 'checkpoint';

/**
 * The state that a file contains: the state after the final step, or the state at the evaluation
 * with the lowest held-out loss.
 */
export type ExportedModelState = 'last' | 'best';

export const MODEL_FILE_ENDINGS: Readonly<Record<ModelFileFormat, string>> = {
  safetensors: '.safetensors',
  tfjs: '.zip',
  keras: '.weights.h5',
  checkpoint: '.peergrad',
};

/**
 * The largest model file that is read as a whole, in bytes. A larger file might not fit in a tab's
 * memory. Safetensors files are read tensor by tensor, so they have no limit.
 */
export const MAX_MODEL_FILE_BYTES = 512 * 1024 * 1024;

/**
 * @param name the file's name in the error.
 * @param size the file's bytes, or a lower bound of them.
 * @throws DataError if the file is too large.
 */
export function checkModelFileSize(name: string, size: number): void {
  if (size <= MAX_MODEL_FILE_BYTES) return;
  throw new DataError(
    `${name} has at least ${size} bytes. A tab can read and write files of at most ${MAX_MODEL_FILE_BYTES} bytes (512 MiB). ` +
      'Use a smaller model.',
  );
}

/**
 * Returns the formats in which a model's weights can be written. The other formats describe layers
 * of TensorFlow.js, so one rank must have all layers.
 */
export function weightsFormatsOfJob(job: Pick<JobSpec, 'job' | 'strategy'>): readonly WeightsFormat[] {
  return job.job === 'gpt' || isPipelineJob(job) ? ['safetensors'] : WEIGHTS_FORMATS;
}

/** Returns the format for a file name's extension; `null` for other extensions. */
export function weightsFormatOfPath(path: string): WeightsFormat | null {
  return WEIGHTS_FORMATS.find((format) => path.endsWith(MODEL_FILE_ENDINGS[format])) ?? null;
}

/** Returns a name for a model's file. It is valid on every file system. */
export function modelFileName(
  { job, model }: Pick<JobSpec, 'job' | 'model'>,
  step: number,
  format: ModelFileFormat,
): string {
  return `peergrad-${job}-${modelNameOrOwn(model)}-step-${step}${MODEL_FILE_ENDINGS[format]}`;
}
