/** Weights of samples and classes, for losses of every shape. */
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { alone, distributed, expectEqual, largestDifference, SAMPLES, useSamples } from './models.ts';

let x: tf.Tensor;
let y: tf.Tensor;
useSamples((samples) => ({ x, y } = samples));

type Loss = (target: tf.Tensor, output: tf.Tensor) => tf.Tensor;

const weightOf = (sample: number): number => (sample % 5) / 2;
const weights = (): tf.Tensor1D => tf.tensor1d(Array.from({ length: SAMPLES }, (_, i) => weightOf(i)));

/** Losses whose mean over all axes but the first is the squared error of a sample. */
const LOSSES: [string, string | Loss][] = [
  ['[batch], or [batch, time] of sequences', 'meanSquaredError'],
  ['[batch, outputs], not reduced', (target, output) => tf.squaredDifference(target, output)],
  ['[batch, 1]', (target, output) => tf.squaredDifference(target, output).mean(-1, true)],
  ['a scalar, the mean of the batch', (target, output) => tf.losses.meanSquaredError(target, output)],
  ['[1], the mean of the batch', (target, output) => tf.squaredDifference(target, output).mean().reshape([1])],
];

const kernelInitializer = () => tf.initializers.glorotUniform({ seed: 5 });
const MODELS = {
  rows: () =>
    tf.sequential({ layers: [tf.layers.dense({ units: 3, inputShape: [4], kernelInitializer: kernelInitializer() })] }),
  sequences: () =>
    tf.sequential({
      layers: [
        tf.layers.reshape({ targetShape: [2, 2], inputShape: [4] }),
        tf.layers.dense({ units: 3, kernelInitializer: kernelInitializer() }),
      ],
    }),
};
type ModelName = keyof typeof MODELS;

const create = (name: ModelName, loss: string | Loss) => (): tf.LayersModel => {
  const model = MODELS[name]();
  model.compile({ optimizer: tf.train.sgd(0.1), loss, metrics: ['mae'] });
  return model;
};

/** Targets of the model's shape. */
const targetsOf = (name: ModelName): tf.Tensor =>
  name === 'rows' ? y.clone() : tf.tidy(() => tf.stack([y, y.reverse(1)], 1));

/** TensorFlow.js has no weights of samples. This loss has those of a batch of all samples. */
const weightedLoss: Loss = (target, output) =>
  tf.squaredDifference(target, output).reshape([SAMPLES, -1]).mean(1).mul(weights());

const cases = (['rows', 'sequences'] as const).flatMap((model) =>
  LOSSES.map(([name, loss]): [ModelName, string, string | Loss] => [model, name, loss]),
);

describe('sampleWeight multiplies the losses of samples', () => {
  test.each(cases)('in fit of %s, if the loss returns %s', async (model, _, loss) => {
    const [targets, sampleWeight] = [targetsOf(model), weights()];
    const args = { epochs: 3, shuffle: false };
    const expected = await alone(create(model, weightedLoss), (each) =>
      each.fit(x, targets, { ...args, batchSize: SAMPLES, verbose: 0 }),
    );
    expectEqual(
      await distributed(2, create(model, loss), (each) =>
        each.fit(x, targets, { ...args, batchSize: SAMPLES / 2, sampleWeight }),
      ),
      expected,
    );
    tf.dispose([targets, sampleWeight]);
  });

  test.each(cases)('in evaluate of %s, if the loss returns %s', async (model, _, loss) => {
    const [targets, sampleWeight] = [targetsOf(model), weights()];
    const reference = create(model, weightedLoss)();
    const expected = reference.evaluate(x, targets, { batchSize: SAMPLES }) as tf.Scalar[];
    const all = await distributed(3, create(model, loss), async (each) => {
      const results = (await each.evaluate(x, targets, { batchSize: 4, sampleWeight })) as tf.Scalar[];
      const values = results.map((one) => one.dataSync()[0]!);
      tf.dispose(results);
      return values;
    });
    const values = expected.map((one) => one.dataSync()[0]!);
    expect(all.every(({ result }) => largestDifference(result, values) < 1e-4)).toBe(true);
    tf.dispose([targets, sampleWeight, expected]);
    reference.optimizer.dispose();
    reference.dispose();
  });

  test('in validation on the samples that validationSplit holds out', async () => {
    const sampleWeight = weights();
    const [trained] = await distributed(1, create('rows', 'meanSquaredError'), async (each) => {
      const fit = await each.fit(x, y, { epochs: 1, validationSplit: 0.25, sampleWeight });
      const held = [x, y, sampleWeight].map((tensor) => tensor.slice(33));
      const [loss, mae] = (await each.evaluate(held[0]!, held[1]!, { sampleWeight: held[2]! })) as tf.Scalar[];
      expect(fit.history['val_loss']![0]).toBeCloseTo(loss!.dataSync()[0]!, 5);
      tf.dispose([held, loss!, mae!]);
      return fit;
    });
    expect(trained!.history.history['val_loss']).not.toEqual(trained!.history.history['loss']);
    sampleWeight.dispose();
  });
});

test.each(LOSSES)('classWeight multiplies the losses of samples, if the loss returns %s', async (_, loss) => {
  const classWeight = { 0: 0.5, 1: 2, 2: 1 };
  const args = { epochs: 2, shuffle: false, classWeight };
  const expected = await alone(create('rows', 'meanSquaredError'), (each) =>
    each.fit(x, y, { ...args, batchSize: 12, verbose: 0 }),
  );
  expectEqual(
    await distributed(2, create('rows', loss), (each) => each.fit(x, y, { ...args, batchSize: 6 })),
    expected,
  );
});

test.each<[string, Loss]>([
  ['a sum over samples', (target, output) => tf.squaredDifference(target, output).sum()],
  ['a mean over samples alone', (target, output) => tf.squaredDifference(target, output).mean(0)],
  ['a loss of pairs of samples', (target, output) => output.sub(output.mean(0)).mul(target).square().mean(1)],
])('%s cannot be weighted, and the error names the output', async (_, loss) => {
  const sampleWeight = weights();
  await distributed(2, create('rows', loss), async (each) => {
    for (const call of ['fit', 'evaluate'] as const) {
      await expect(each[call](x, y, { sampleWeight })).rejects.toThrow(
        /The loss of dense_\w+ cannot be weighted by sampleWeight or classWeight: .* Return losses of the shape \[batch\]/,
      );
    }
  });
  sampleWeight.dispose();
});
