import * as tf from '@tensorflow/tfjs';
import { beforeAll, describe, test } from 'vitest';
import { alone, compiled, distributed, expectEqual, OPTIMIZERS, samplesOf, type ModelName } from './models.ts';

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
    expectEqual(all, expected);
    tf.dispose([x, y]);
  });
});
