/** The tasks of `bench peers`: jobs of this project, whose samples are in memory. */
import * as tf from '@tensorflow/tfjs';
import { loadCorpus, loadData, sampleLength, type Dataset } from '../../src/jobs/index.ts';
import { createGptTask } from '../../src/engine/tasks/gptTask.ts';
import { createJobTask } from '../../src/engine/tasks/jobTask.ts';
import type { TrainingTask } from '../../src/engine/tasks/task.ts';
import { variablesOf } from '../../src/parallel/backward/flatten.ts';
import { GPT_PRESETS, type GptModel } from '../../src/spec/gpt.ts';
import { parseJob, type JobSpec } from '../../src/spec/job.ts';
import { gptJob, JOBS } from '../gpu/models.ts';
import { ADAM, BATCHES, MODELS, type ModelName, type Problem } from './args.ts';

/** All libraries train without dropout, whose random numbers differ between them. */
const gpt = (fields: Partial<GptModel>): Record<string, unknown> => gptJob({ ...fields, dropout: 0 });

const FIELDS: Record<ModelName, Record<string, unknown>> = {
  mlp: JOBS.mlp,
  'mlp-1024': JOBS['mlp-1024'],
  cnn: JOBS.cnn,
  'gpt-tiny': gpt(GPT_PRESETS.tiny.model),
  'gpt-small': gpt({}),
  nanogpt: gpt({ layers: 4, context: 64 }),
};

interface BenchTask {
  job: JobSpec;
  task: TrainingTask;
  indicesOf: (batch: number) => Uint32Array;
  problem: () => Promise<Problem>;
}

export async function loadTask(model: ModelName): Promise<BenchTask> {
  const { learningRate } = ADAM;
  const job = parseJob({ ...FIELDS[model], optimizer: 'adam', learningRate, clipNorm: null });
  const options = { files: [], baseUrl: '' };
  const size = BATCHES * MODELS[model].batch;
  const all = Uint32Array.from({ length: size }, (_, i) => i);
  let task: TrainingTask;
  let inputs: Float32Array<ArrayBuffer> | Int32Array<ArrayBuffer>;
  let labels: Int32Array<ArrayBuffer>;
  if (job.job === 'gpt') {
    const corpus = await loadCorpus(job, options);
    inputs = new Int32Array(size * job.gpt.context);
    labels = new Int32Array(size * job.gpt.context);
    corpus.train.read(all, inputs, labels);
    task = createGptTask(job, corpus);
  } else {
    // Digits are drawn when they are read. That would be a part of the step of this project only.
    const { train, test } = await loadData(job, options);
    const pixels = sampleLength(train);
    const pictures = new Float32Array(size * pixels);
    labels = new Int32Array(size);
    await train.read(all, pictures, labels);
    const kept: Dataset = {
      ...{ size, inputShape: train.inputShape, classes: train.classes },
      read: (indices, into, intoLabels) => {
        for (const [i, index] of Array.from(indices).entries()) {
          into.set(pictures.subarray(index * pixels, (index + 1) * pixels), i * pixels);
          intoLabels[i] = labels[index]!;
        }
      },
    };
    inputs = pictures;
    task = await createJobTask(job, { train: kept, test }, 1);
  }
  const { batch } = MODELS[model];
  const { parameters } = variablesOf(task.model);
  return {
    job,
    task,
    indicesOf: (i) => all.subarray(i * batch, (i + 1) * batch),
    problem: async () => {
      const tensors = tf.tidy(() => parameters.map((parameter, i) => channelsFirst(parameter, parameters[i - 2])));
      const values = await Promise.all(tensors.map((tensor) => tensor.data()));
      const weights = Float32Array.from(values.flatMap((one) => Array.from(one)));
      const shapes = tensors.map(({ shape }) => [...shape]);
      tf.dispose(tensors);
      return {
        ...{ model, shapes, weights: toBase64(weights), heads: job.job === 'gpt' ? job.gpt.heads : 0 },
        ...{ inputs: toBase64(inputs), labels: toBase64(labels) },
      };
    },
  };
}

/**
 * jax-js and PyTorch convolve [channels, height, width]. A dense layer after a convolution of these
 * has its rows in another order.
 */
function channelsFirst(kernel: tf.Tensor, before?: tf.Tensor): tf.Tensor {
  if (kernel.rank === 4) return kernel.transpose([3, 2, 0, 1]);
  if (before?.rank !== 4) return kernel.clone();
  const channels = before.shape[3]!;
  const [inputs, outputs] = kernel.shape as [number, number];
  return kernel
    .reshape([inputs / channels, channels, outputs])
    .transpose([1, 0, 2])
    .reshape([inputs, outputs]);
}

function toBase64({ buffer }: Float32Array<ArrayBuffer> | Int32Array<ArrayBuffer>): string {
  let text = '';
  for (const byte of new Uint8Array(buffer)) text += String.fromCharCode(byte);
  return btoa(text);
}
