import * as tf from '@tensorflow/tfjs';
import { beforeAll, describe, expect, test } from 'vitest';
import {
  alone,
  compiled,
  distributed,
  historyDifference,
  largestDifference,
  OPTIMIZERS,
  samplesOf,
  type ModelName,
} from './models.ts';

const LIMIT = 1e-4;

beforeAll(async () => {
  await tf.setBackend('cpu');
});

describe.each(Object.keys(OPTIMIZERS))('an epoch with %s', (optimizer) => {
  test.each([
    ['mlp', 2],
    ['mlp', 4],
    ['cnn', 2],
    ['cnn', 4],
  ] as [ModelName, number][])('of the %s in %i ranks equals model.fit in one tab', async (name, ranks) => {
    const { x, y } = samplesOf(name);
    const create = () => compiled(name, { optimizer: OPTIMIZERS[optimizer]! });
    const expected = await alone(create, (model) => model.fit(x, y, { batchSize: 16, shuffle: false, verbose: 0 }));
    const all = await distributed(ranks, create, (model) => model.fit(x, y, { batchSize: 16 / ranks, shuffle: false }));
    for (const { history, weights } of all) {
      expect(historyDifference(history, expected.history)).toBeLessThan(LIMIT);
      expect(largestDifference(weights, expected.weights)).toBeLessThan(LIMIT);
      expect(weights).toEqual(all[0]!.weights);
    }
    tf.dispose([x, y]);
  });
});
