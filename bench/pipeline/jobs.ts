/** The jobs of `bench pipeline`. */
import { DEFAULT_JOB, parseJob, type JobSpec } from '../../src/spec/job.ts';
import { gpipe, oneForwardOneBackward } from '../../src/parallel/pipeline/schedules.ts';
import type { PIPELINE_SCHEDULES } from '../../src/spec/pipeline.ts';

export type Schedule = (typeof PIPELINE_SCHEDULES)[number];
export const SCHEDULES = { gpipe, '1f1b': oneForwardOneBackward } as const satisfies Record<Schedule, unknown>;

/** Units of the mlp's hidden layers. */
const UNITS = 48;

const MODELS = {
  /** The preset `tiny`, with four layers. */
  gpt: { job: 'gpt', gpt: DEFAULT_JOB.gpt },
  /** Six dense layers, behind a layer without weights. Tanh has no kinks (see `fit.ts`). */
  mlp: {
    job: 'digits',
    model: {
      class_name: 'Sequential',
      config: {
        layers: [
          { class_name: 'Flatten', config: { input_shape: [28, 28, 1] } },
          ...Array.from({ length: 5 }, () => ({ class_name: 'Dense', config: { units: UNITS, activation: 'tanh' } })),
          { class_name: 'Dense', config: { units: 10 } },
        ],
      },
    },
  },
} as const;

export const MODEL_NAMES = ['gpt', 'mlp'] as const satisfies readonly (keyof typeof MODELS)[];
export type BenchModel = (typeof MODEL_NAMES)[number];

/** Returns a job that trains one of the models. */
export function jobOf(model: BenchModel, fields: Record<string, unknown>): JobSpec {
  return parseJob({ ...MODELS[model], ...fields });
}
