/** The files that a model is taken along in. */
import { kindOfModel, type JobSpec } from './job.ts';

/** Of the weights alone, which other programs read, too: docs/export.md has each. */
export const WEIGHTS_FORMATS = ['safetensors', 'tfjs', 'keras'] as const;
export type WeightsFormat = (typeof WEIGHTS_FORMATS)[number];

/** A checkpoint is all that it takes to go on training. */
export type ModelFormat = WeightsFormat | 'checkpoint';

/** The state of a model that a file is of: after the last step, or after the best evaluation. */
export type ModelVersion = 'last' | 'best';

/** How a file's name ends. */
export const FILE_ENDINGS: Readonly<Record<ModelFormat, string>> = {
  safetensors: '.safetensors',
  tfjs: '.zip',
  keras: '.weights.h5',
  checkpoint: '.peergrad',
};

/** Most bytes of a file that is taken in: more does not fit a tab. */
export const MAX_MODEL_FILE_BYTES = 512 * 1024 * 1024;

/**
 * Models made of TensorFlow.js's layers: another program can be told what computes with their
 * weights.
 */
const LAYERED: readonly string[] = ['mlp', 'cnn', 'own'];

/** Those that a model's weights can be written as. */
export function weightsFormatsOf({ model }: Pick<JobSpec, 'model'>): readonly WeightsFormat[] {
  return LAYERED.includes(kindOfModel(model)) ? WEIGHTS_FORMATS : ['safetensors'];
}

/** What a name's ending says. */
export function weightsFormatOf(path: string): WeightsFormat | null {
  return WEIGHTS_FORMATS.find((format) => path.endsWith(FILE_ENDINGS[format])) ?? null;
}

/** A name for a model's file, without anything that a file system could mind. */
export function modelFileName(
  { job, model }: Pick<JobSpec, 'job' | 'model'>,
  step: number,
  format: ModelFormat,
): string {
  return `peergrad-${job}-${kindOfModel(model)}-step-${step}${FILE_ENDINGS[format]}`;
}
