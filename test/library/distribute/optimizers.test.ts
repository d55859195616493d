import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import {
  alone,
  compiled,
  distributed,
  expectEqual,
  OPTIMIZERS,
  samplesOf,
  type ModelName,
  weightsOf,
} from './models.ts';

const squares = (truth: tf.Tensor, output: tf.Tensor): tf.Tensor => truth.sub(output).square().mean(-1);
const constant = (truth: tf.Tensor): tf.Tensor => truth.mean(-1);

/** Two outputs. The loss does not depend on the second one. */
function withUnusedOutput(): tf.LayersModel {
  const input = tf.input({ shape: [4] });
  const outputs = [1, 2].map(
    (seed) =>
      tf.layers
        .dense({ units: 3, activation: 'softmax', kernelInitializer: tf.initializers.glorotUniform({ seed }) })
        .apply(input) as tf.SymbolicTensor,
  );
  const model = tf.model({ inputs: input, outputs });
  // Centered rmsprop makes weights NaN whose gradient is 0 in the first step.
  model.compile({ optimizer: tf.train.rmsprop(0.01, 0.9, 0, 1e-7, true), loss: [squares, constant] });
  return model;
}

test('weights without a gradient do not change', async () => {
  const { x, y } = samplesOf('mlp');
  const before = withUnusedOutput();
  const unused = weightsOf(before).slice(-15);
  before.dispose();
  const all = await distributed(2, withUnusedOutput, (model) => model.fit(x, [y, y], { batchSize: 8, shuffle: false }));
  for (const { weights } of all) expect(weights.slice(-15)).toEqual(unused);
  tf.dispose([x, y]);
});

describe.each(Object.keys(OPTIMIZERS))('an epoch with %s', (optimizer) => {
  test.each([
    ['mlp', 2],
    ['mlp', 4],
    ['cnn', 2],
    ['cnn', 4],
  ] as [ModelName, number][])('of the %s on %i ranks equals model.fit in one tab', async (name, ranks) => {
    const { x, y } = samplesOf(name);
    const create = () => compiled(name, { optimizer: OPTIMIZERS[optimizer]! });
    const expected = await alone(create, (model) => model.fit(x, y, { batchSize: 16, shuffle: false, verbose: 0 }));
    const all = await distributed(ranks, create, (model) => model.fit(x, y, { batchSize: 16 / ranks, shuffle: false }));
    expectEqual(all, expected);
    tf.dispose([x, y]);
  });
});
