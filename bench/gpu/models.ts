/** The models of `bench gpu`, as tasks of training runs. */
import { loadJobTask } from '../../src/engine/tasks/loadJobTask.ts';
import type { Task } from '../../src/engine/tasks/task.ts';
import { variablesOf } from '../../src/parallel/backward/flatten.ts';
import { PRESETS, type PresetName } from '../../src/spec/gpt.ts';
import { parseJob, type JobSpec } from '../../src/spec/job.ts';
import type { GpuModel } from './args.ts';

const WIDE = 1024;

const dense = (units: number, activation = 'linear') => ({ class_name: 'Dense', config: { units, activation } });

/** Two hidden layers of 1024 units on pictures of 28 x 28 pixels. */
const WIDE_MLP = {
  class_name: 'Sequential',
  config: {
    layers: [
      { class_name: 'Flatten', config: { batch_input_shape: [null, 28, 28, 1] } },
      dense(WIDE, 'relu'),
      dense(WIDE, 'relu'),
      dense(10),
    ],
  },
};

const gpt = (size: PresetName): Record<string, unknown> => ({
  job: 'gpt',
  gpt: { ...PRESETS[size].model, prompt: '\n' },
  data: { kind: 'built-in' },
});

export const JOBS: Record<GpuModel, Record<string, unknown>> = {
  mlp: { job: 'digits', model: 'mlp', hidden: 64 },
  'mlp-1024': { job: 'digits', model: WIDE_MLP },
  cnn: { job: 'digits', model: 'cnn' },
  'gpt-tiny': gpt('tiny'),
  'gpt-small': gpt('small'),
  'gpt-medium': gpt('medium'),
  'gpt-large': gpt('large'),
};

export interface BenchModel {
  task: Task;
  /** Number of parameters. */
  parameters: number;
  /** Multiply-adds of the forward pass of one sample; see {@link multiplyAddsOf}. */
  multiplyAdds: number;
  /** Tokens of a sample; `null`: samples are not texts. */
  tokens: number | null;
}

export async function loadModel(name: GpuModel): Promise<BenchModel> {
  const job = parseJob(JOBS[name]);
  const task = await loadJobTask(job, { files: [], baseUrl: globalThis.location.origin }, 1);
  const shapes = variablesOf(task.model).parameters.map(({ shape }) => shape);
  return {
    task,
    parameters: shapes.reduce((sum, shape) => sum + productOf(shape), 0),
    multiplyAdds: multiplyAddsOf(job, shapes),
    tokens: job.job === 'gpt' ? job.gpt.context : null,
  };
}

/** Output positions of the cnn's convolutions, which halve the sides of 28 x 28 pixels. */
const CNN_POSITIONS = [14 * 14, 7 * 7];

/**
 * Counts the multiply-adds of matrix products and convolutions in the forward pass of one sample.
 * Embeddings, normalizations, activations and losses are not counted. In a language model, each
 * token has one multiply-add per weight of its matrices, the output layer included, and 2 * context
 * * width in each layer's attention, masked positions included (Kaplan et al., "Scaling Laws for
 * Neural Language Models", 2020, table 1).
 */
export function multiplyAddsOf(
  { job, gpt: { layers, width, context } }: Pick<JobSpec, 'job' | 'gpt'>,
  shapes: readonly (readonly number[])[],
): number {
  if (job !== 'gpt') {
    const kernels = shapes.filter(({ length }) => length >= 2);
    return kernels.reduce((sum, shape, i) => sum + productOf(shape) * (shape.length === 4 ? CNN_POSITIONS[i]! : 1), 0);
  }
  const [vocabulary, , ...rest] = shapes;
  const matrices = [vocabulary!, ...rest.filter(({ length }) => length === 2)];
  const weights = matrices.reduce((sum, shape) => sum + productOf(shape), 0);
  return context * (weights + layers * 2 * context * width);
}

function productOf(shape: readonly number[]): number {
  return shape.reduce((product, side) => product * side, 1);
}
