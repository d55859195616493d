/** The job gpt with the project's kernels, and with those of TensorFlow.js. */
import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { createGptTask } from '../../src/engine/tasks/gptTask.ts';
import { createCorpus } from '../../src/jobs/gpt/corpus.ts';
import { writeFables } from '../../src/jobs/gpt/fables.ts';
import { plainText } from '../../src/jobs/gpt/text.ts';
import { useKernels } from '../../src/kernels/index.ts';
import { PRESETS, type GptModel, type PresetName } from '../../src/spec/gpt.ts';
import { parseJob } from '../../src/spec/job.ts';
import { dispatchesOf } from './dispatches.ts';

const TEXT = plainText(writeFables().slice(0, 3000));

async function taskOf(preset: PresetName, model: Partial<GptModel> = {}) {
  const job = parseJob({ job: 'gpt', gpt: { ...PRESETS[preset].model, prompt: '', ...model } });
  return createGptTask(job, await createCorpus(TEXT, job.gpt));
}

/** Dispatches of the loss and its gradients. */
async function stepDispatches(preset: PresetName, kernels: 'own' | 'stock'): Promise<number> {
  useKernels(kernels);
  try {
    // A short context, for the test's time.
    const task = await taskOf(preset, { context: 16 });
    let dispatches = 0;
    await task.withBatch(
      Uint32Array.of(0),
      (loss) => {
        dispatches = dispatchesOf(() => tf.variableGrads(loss as () => tf.Scalar));
        return Promise.resolve();
      },
      0,
      1,
    );
    task.dispose();
    return dispatches;
  } finally {
    useKernels('own');
  }
}

test.each([
  ['tiny', 45],
  ['small', 151],
] as const)(
  'a step of gpt %s takes %i dispatches, at most a third of those with stock kernels',
  async (preset, expected) => {
    const own = await stepDispatches(preset, 'own');
    expect(own).toBe(expected);
    expect(own).toBeLessThanOrEqual((await stepDispatches(preset, 'stock')) / 3);
  },
  180_000,
);

/** Returns the losses of 20 steps of gpt tiny. */
async function lossesOf(kernels: 'own' | 'stock'): Promise<number[]> {
  useKernels(kernels);
  try {
    const task = await taskOf('tiny');
    const optimizer = tf.train.sgd(0.1);
    const losses: number[] = [];
    for (let step = 0; step < 20; step++) {
      await task.withBatch(
        Uint32Array.of(2 * step, 2 * step + 1),
        async (loss) => {
          const mean = () => (loss as () => tf.Scalar)().div<tf.Scalar>(2);
          const value = optimizer.minimize(mean, true)!;
          losses.push((await value.data())[0]!);
          value.dispose();
        },
        step,
        2,
      );
    }
    task.dispose();
    optimizer.dispose();
    return losses;
  } finally {
    useKernels('own');
  }
}

test('20 steps of gpt tiny have the losses of stock kernels', async () => {
  const stock = await lossesOf('stock');
  const own = await lossesOf('own');
  expect(stock.at(-1)!).toBeLessThan(stock[0]! - 0.1);
  for (const [step, loss] of own.entries()) expect(Math.abs(loss - stock[step]!), `step ${step}`).toBeLessThan(1e-4);
}, 180_000);
