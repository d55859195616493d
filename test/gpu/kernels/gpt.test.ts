/** The job gpt with the project's kernels, and with those of TensorFlow.js. */
import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { createGptTask } from '../../../src/engine/tasks/gptTask.ts';
import { createCorpus } from '../../../src/jobs/gpt/corpus.ts';
import { writeFables } from '../../../src/jobs/gpt/fables.ts';
import { gptNetworkLayers } from '../../../src/jobs/gpt/layers.ts';
import { gptNetworkMemory } from '../../../src/jobs/gpt/shapes.ts';
import { textInMemory } from '../../../src/jobs/gpt/text.ts';
import { disposeTape, recordTape } from '../../../src/parallel/backward/tape.ts';
import { GPT_PRESETS, type GptPresetName } from '../../../src/spec/gpt.ts';
import { parseJob } from '../../../src/spec/job.ts';
import { dispatchesOf } from './dispatches.ts';

const TEXT = textInMemory(writeFables().slice(0, 3000));

/**
 * Short contexts and narrow heads, for the tests' time: their shaders compile fast. With dropout,
 * all tests run the same shaders.
 */
async function taskOf(preset: GptPresetName) {
  const { model } = GPT_PRESETS[preset];
  const job = parseJob({
    job: 'gpt',
    gpt: { ...model, prompt: '', context: 16, heads: model.width / 4, dropout: 0.1 },
  });
  return createGptTask(job, await createCorpus(TEXT, job.gpt));
}

/** The last column: dispatches with stock kernels, and the preset's dropout. */
test.each([
  ['tiny', 38, 143],
  ['small', 134, 533],
] as const)(
  "the loss of gpt %s and its gradients take %i dispatches, less than a third of the stock kernels' %i",
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
      { step: 0, epoch: 0 },
      1,
    );
    task.dispose();
  },
);

/** Returns the losses of 20 steps of gpt tiny. */
async function lossesOn(backend: 'webgpu' | 'cpu'): Promise<number[]> {
  await tf.setBackend(backend);
  try {
    const task = await taskOf('tiny');
    const optimizer = tf.train.sgd(0.1);
    const losses: number[] = [];
    for (let step = 0; step < 20; step++) {
      await task.withBatch(
        Uint32Array.of(step),
        async (loss) => {
          const value = optimizer.minimize(loss as () => tf.Scalar, true)!;
          losses.push((await value.data())[0]!);
          value.dispose();
        },
        { step, epoch: 0 },
        1,
      );
    }
    task.dispose();
    optimizer.dispose();
    return losses;
  } finally {
    await tf.setBackend('webgpu');
  }
}

test('the losses of gpt tiny equal those of the CPU backend in 20 steps', async () => {
  const expected = await lossesOn('cpu');
  const own = await lossesOn('webgpu');
  expect(expected.at(-1)!).toBeLessThan(expected[0]! - 0.1);
  for (const [step, loss] of own.entries()) expect(Math.abs(loss - expected[step]!), `step ${step}`).toBeLessThan(1e-4);
});

test('each layer keeps exactly as many elements for its backward pass as gptNetworkMemory returns', () => {
  const before = tf.memory().numTensors;
  const size = { layers: 2, heads: 2, width: 16, context: 16, vocabulary: 12 };
  const layers = gptNetworkLayers(size, 1);
  expect(tf.memory().numTensors).toBe(before);
  const memory = gptNetworkMemory(size);
  expect(memory.map(({ name }) => name)).toEqual(layers.map(({ name }) => name));
  let x: tf.Tensor = tf.zeros([3, 16], 'int32');
  for (const [i, layer] of layers.entries()) {
    const variables = layer.build();
    const weights = variables.reduce((sum, variable) => sum + variable.size, 0);
    expect([weights, layer.size]).toEqual([memory[i]!.weights, memory[i]!.weights]);
    const { result, tape } = recordTape(() => layer.apply(x, { mask: null }));
    const kept = new Map([result, ...tape.flatMap(({ saved }) => saved ?? [])].map((one) => [one.dataId, one.size]));
    for (const { dataId } of [x, ...variables]) kept.delete(dataId);
    const elements = [...kept.values()].reduce((sum, one) => sum + one, 0);
    expect(elements, layer.name).toBe(3 * memory[i]!.activations);
    disposeTape(tape);
    x.dispose();
    x = result;
  }
  x.dispose();
  for (const layer of layers) layer.dispose();
  expect(tf.memory().numTensors).toBe(before);
});
