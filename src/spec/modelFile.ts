/** Files of models. */
import { kindOfModel, type JobSpec } from './job.ts';

/** Formats of the weights alone, which other programs can read: docs/export.md describes each. */
export const WEIGHTS_FORMATS = ['safetensors', 'tfjs', 'keras'] as const;
export type WeightsFormat = (typeof WEIGHTS_FORMATS)[number];

/** All formats. A checkpoint contains everything needed to continue training. */
export type ModelFormat = WeightsFormat | 'checkpoint';

/** The state in a file: after the last step, or after the best evaluation. */
export type ModelVersion = 'last' | 'best';

/** The ending of a file's name. */
export const FILE_ENDINGS: Readonly<Record<ModelFormat, string>> = {
  safetensors: '.safetensors',
  tfjs: '.zip',
  keras: '.weights.h5',
  checkpoint: '.peergrad',
};

/** Most bytes of a model file that is opened: more does not fit a tab. */
export const MAX_MODEL_FILE_BYTES = 512 * 1024 * 1024;

/** Models made of TensorFlow.js layers, which other programs can rebuild. */
const LAYERED: readonly string[] = ['mlp', 'cnn', 'own'];

/** The formats in which a model's weights can be written. */
export function weightsFormatsOf({ model }: Pick<JobSpec, 'model'>): readonly WeightsFormat[] {
  return LAYERED.includes(kindOfModel(model)) ? WEIGHTS_FORMATS : ['safetensors'];
}

/** The format that a file name's ending implies. */
export function weightsFormatOf(path: string): WeightsFormat | null {
  return WEIGHTS_FORMATS.find((format) => path.endsWith(FILE_ENDINGS[format])) ?? null;
}

/** A name for a model's file that is valid on every file system. */
export function modelFileName(
  { job, model }: Pick<JobSpec, 'job' | 'model'>,
  step: number,
  format: ModelFormat,
): string {
  return `peergrad-${job}-${kindOfModel(model)}-step-${step}${FILE_ENDINGS[format]}`;
}
