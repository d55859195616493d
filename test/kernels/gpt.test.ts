/** The job gpt with the project's kernels, and with those of TensorFlow.js. */
import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { createGptTask } from '../../src/engine/tasks/gptTask.ts';
import { createCorpus } from '../../src/jobs/gpt/corpus.ts';
import { writeFables } from '../../src/jobs/gpt/fables.ts';
import { plainText } from '../../src/jobs/gpt/text.ts';
import { useKernels } from '../../src/kernels/index.ts';
import { PRESETS, type PresetName } from '../../src/spec/gpt.ts';
import { parseJob } from '../../src/spec/job.ts';
import { dispatchesOf } from './dispatches.ts';

const TEXT = plainText(writeFables().slice(0, 3000));

/** A short context, for the tests' time. */
const CONTEXT = 16;

async function taskOf(preset: PresetName) {
  const job = parseJob({ job: 'gpt', gpt: { ...PRESETS[preset].model, context: CONTEXT, prompt: '' } });
  return createGptTask(job, await createCorpus(TEXT, job.gpt));
}

test.each([
  ['tiny', 40, 143],
  ['small', 144, 533],
] as const)(
  'the loss of gpt %s and its gradients take %i dispatches; stock kernels take %i',
  async (preset, expected, stock) => {
    const task = await taskOf(preset);
    await task.withBatch(
      Uint32Array.of(0),
      (loss) => {
        const dispatches = dispatchesOf(() => tf.variableGrads(loss as () => tf.Scalar));
        expect(dispatches).toBe(expected);
        expect(dispatches).toBeLessThan(stock / 3);
        return Promise.resolve();
      },
      0,
      1,
    );
    task.dispose();
  },
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
});
