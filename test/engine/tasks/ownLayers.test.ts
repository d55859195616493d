/** Runs of custom models, in groups over memory links, on TensorFlow.js's CPU backend. */
import { expect, test } from 'vitest';
import { CUSTOM_MODEL_JOB } from '../../jobs/models/customModelJob.ts';
import { relative, train } from '../train.ts';

const model = (rate: number): object => ({
  class_name: 'Sequential',
  config: {
    layers: [
      { class_name: 'AveragePooling2D', config: { pool_size: 4, batch_input_shape: [null, 28, 28, 1] } },
      { class_name: 'Dropout', config: { rate } },
      { class_name: 'Flatten', config: {} },
      { class_name: 'Dense', config: { units: 8, activation: 'relu' } },
      { class_name: 'LayerNormalization', config: {} },
      { class_name: 'Dropout', config: { rate } },
      { class_name: 'Dense', config: { units: 10, activation: 'softmax' } },
    ],
  },
});

test('four ranks learn the same as one rank with four times the batch, even with dropout and changed pictures', async () => {
  const augment = ['flip', 'shift', 'colour'];
  const plan = { model: model(0.3), maxSteps: 6, optimizer: 'sgd', learningRate: 0.1, augment };
  const [four] = (await train(4, { ...plan, batchSize: 4 })).results;
  const [one] = (await train(1, { ...plan, batchSize: 16 })).results;
  const [whole] = (await train(1, { ...plan, model: model(0), batchSize: 16 })).results;
  expect(new Set(four!.stateHash).size).toBe(1);
  for (const [step, loss] of four!.losses.entries()) expect(relative(loss, one!.losses[step]!)).toBeLessThan(1e-6);
  expect(relative(four!.losses[0]!, whole!.losses[0]!)).toBeGreaterThan(1e-3);
});

test('training pictures are changed, and held-out pictures are not', async () => {
  const plan = { model: model(0), maxSteps: 1, batchSize: 4, learningRate: 1e-9, optimizer: 'sgd' };
  const [changed, same] = await Promise.all(
    [['flip', 'shift', 'colour'], null].map(async (augment) => (await train(1, { ...plan, augment })).results[0]!),
  );
  expect(relative(changed!.losses[0]!, same!.losses[0]!)).toBeGreaterThan(1e-3);
  expect(relative(changed!.valLoss!, same!.valLoss!)).toBeLessThan(1e-6);
});

test('two ranks learn a model with branches like one rank with twice the batch', async () => {
  const [two] = (await train(2, { ...CUSTOM_MODEL_JOB, maxSteps: 4, batchSize: 4 })).results;
  const [one] = (await train(1, { ...CUSTOM_MODEL_JOB, maxSteps: 4, batchSize: 8 })).results;
  expect(two!.stateHash[0]).toBe(two!.stateHash[1]);
  for (const [step, loss] of two!.losses.entries()) expect(relative(loss, one!.losses[step]!)).toBeLessThan(1e-5);
});

test('dropout is off when the model answers queries', async () => {
  const plan = { maxSteps: 1, batchSize: 4, learningRate: 1e-9, optimizer: 'sgd' };
  const losses = [0.9, 0].map(async (rate) => (await train(1, { ...plan, model: model(rate) })).results[0]!.valLoss);
  const [dropped, whole] = await Promise.all(losses);
  expect(relative(dropped!, whole!)).toBeLessThan(1e-5);
});
