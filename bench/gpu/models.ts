/** The models of `bench gpu`, as tasks of training runs. */
import { loadJobTask } from '../../src/engine/tasks/loadJobTask.ts';
import type { TrainingTask } from '../../src/engine/tasks/task.ts';
import { variablesOf } from '../../src/parallel/backward/flatten.ts';
import { GPT_PRESETS, type GptModel } from '../../src/spec/gpt.ts';
import { parseJob } from '../../src/spec/job.ts';
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

export const gptJob = (model: Partial<GptModel>): Record<string, unknown> => ({
  job: 'gpt',
  gpt: { ...GPT_PRESETS.small.model, prompt: '\n', ...model },
  data: { kind: 'built-in' },
});

export const JOBS: Record<GpuModel, Record<string, unknown>> = {
  mlp: { job: 'digits', model: 'mlp', hidden: 64 },
  'mlp-1024': { job: 'digits', model: WIDE_MLP },
  cnn: { job: 'digits', model: 'cnn' },
  'gpt-tiny': gptJob(GPT_PRESETS.tiny.model),
  'gpt-small': gptJob(GPT_PRESETS.small.model),
  'gpt-medium': gptJob(GPT_PRESETS.medium.model),
  'gpt-large': gptJob(GPT_PRESETS.large.model),
};

export interface BenchModel {
  task: TrainingTask;
  /** Number of parameters. */
  parameters: number;
  /** Tokens of a sample; `null`: samples are not texts. */
  tokens: number | null;
}

export async function loadModel(name: GpuModel): Promise<BenchModel> {
  const job = parseJob(JOBS[name]);
  const task = await loadJobTask(job, { files: [], baseUrl: globalThis.location.origin }, 1);
  return {
    task,
    parameters: variablesOf(task.model).parameters.reduce((sum, { size }) => sum + size, 0),
    tokens: job.job === 'gpt' ? job.gpt.context : null,
  };
}
