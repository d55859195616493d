/** The library's Trainer, in groups over memory links, on TensorFlow.js's CPU backend. */
import * as tf from '@tensorflow/tfjs';
import { beforeAll, describe, expect, test } from 'vitest';
import { Trainer, type TrainerOptions } from '../../src/engine/trainer.ts';
import { SyncBatchNormalization } from '../../src/parallel/syncBatchNorm.ts';
import { runWorld } from '../../src/testing/index.ts';
import { createRng } from '../../src/util/rng.ts';

beforeAll(async () => {
  await tf.setBackend('cpu');
});

/** Points of the plane, and on which side of a line they are, one-hot. */
function points(n: number): { xs: tf.Tensor2D; ys: tf.Tensor2D } {
  const rng = createRng(7);
  const xs = tf.tensor2d(Array.from({ length: n }, () => [rng.next() - 0.5, rng.next() - 0.5]));
  const above = xs.sum(1).greater(0).cast('int32') as tf.Tensor1D;
  return { xs, ys: tf.oneHot(above, 2).cast('float32') };
}

const weights = (): tf.Tensor[] => [
  tf.tensor2d([
    [0.1, -0.2],
    [0.3, 0.1],
  ]),
  tf.zeros([2]),
];

function classifier(): tf.LayersModel {
  const model = tf.sequential({ layers: [tf.layers.dense({ units: 2, inputShape: [2] })] });
  model.setWeights(weights());
  return model;
}

const valuesOf = (model: tf.LayersModel): number[] =>
  model.getWeights().flatMap((weight) => Array.from(weight.dataSync()));

/** A model around a layer that normalizes. */
const build = (norm: tf.layers.Layer): tf.LayersModel => {
  const model = tf.sequential({
    layers: [tf.layers.dense({ units: 2, inputShape: [2] }), norm, tf.layers.dense({ units: 2 })],
  });
  for (const layer of [model.layers[0]!, model.layers[2]!]) layer.setWeights(weights());
  return model;
};

const perSample = (labels: tf.Tensor, outputs: tf.Tensor) => outputs.sub(labels).square().mean(-1);
const mean = (labels: tf.Tensor, outputs: tf.Tensor) => outputs.sub(labels).square().mean();

const fit = (samples: { xs: tf.Tensor; ys: tf.Tensor }) =>
  new Trainer().fit(classifier(), samples, { loss: 'softmaxCrossEntropy' });

const PLAN: TrainerOptions = { optimizer: 'adam', learningRate: 0.2, epochs: 3, seed: 3 };

describe('Trainer', () => {
  test('teaches N ranks what one rank with the whole batch learns, and tells how well', async () => {
    const data = points(100);
    const alone = classifier();
    const options = { loss: 'softmaxCrossEntropy', validation: data } as const;
    const one = await new Trainer({ ...PLAN, batchSize: 30 }).fit(alone, data, options);
    await runWorld(3, async (group) => {
      const model = classifier();
      const result = await new Trainer({ ...PLAN, batchSize: 10, group }).fit(model, data, options);
      expect(result.losses).toHaveLength(12);
      for (const [step, loss] of result.losses.entries()) expect(loss).toBeCloseTo(one.losses[step]!, 4);
      for (const [i, value] of valuesOf(model).entries()) expect(value).toBeCloseTo(valuesOf(alone)[i]!, 4);
      expect(result.accuracy).toBeGreaterThan(0.9);
      expect(result.stateHash).toHaveLength(3);
    });
  });

  test("calls back in TensorFlow.js's order, and waits", async () => {
    const called: string[] = [];
    const call =
      (name: string) =>
      async (...args: unknown[]) => {
        await Promise.resolve();
        called.push([name, ...args.slice(0, 1)].join(' '));
      };
    const logs: (tf.Logs | undefined)[] = [];
    const data = points(25);
    await new Trainer({
      ...{ epochs: 2, batchSize: 16, learningRate: 0.3 },
      callbacks: [
        {
          ...{
            onTrainBegin: call('train'),
            onTrainEnd: call('trained'),
            onEpochBegin: call('epoch'),
            onBatchEnd: call('batch'),
          },
          onEpochEnd: (epoch, log) => void (called.push(`ended ${epoch}`), logs.push(log)),
        },
      ],
    }).fit(classifier(), data, { loss: 'softmaxCrossEntropy', validation: data });
    expect(called.map((line) => line.replace(/\[object.*/, '').trim())).toEqual([
      'train',
      ...['epoch 0', 'batch 0', 'batch 1', 'ended 0'],
      ...['epoch 1', 'batch 0', 'batch 1', 'ended 1'],
      'trained',
    ]);
    expect(logs[1]!['loss']).toBeLessThan(logs[0]!['loss']!);
    expect(logs[1]!['val_acc']).toBeGreaterThan(0.5);
  });

  test.each(['ring', 'parameter-server', 'local-sgd', 'diloco', 'async-parameter-server'] as const)(
    "keeps batch normalization's averages equal with %s, and leaves no tensor behind",
    async (strategy) => {
      const data = points(40);
      const models = [0, 1].map(() =>
        tf.sequential({
          layers: [
            tf.layers.dense({ units: 4, inputShape: [2] }),
            tf.layers.batchNormalization(),
            tf.layers.dense({ units: 2, activation: 'softmax' }),
          ],
        }),
      );
      const before = tf.memory().numTensors;
      await runWorld(2, (group) =>
        new Trainer({ epochs: 2, batchSize: 8, strategy, syncEvery: 2, group }).fit(models[group.rank]!, data, {
          loss: 'categoricalCrossentropy',
        }),
      );
      expect(valuesOf(models[1]!)).toEqual(valuesOf(models[0]!));
      expect(tf.memory().numTensors).toBe(before);
    },
  );

  test('normalizes over all ranks where the model asks for it', async () => {
    const data = points(24);
    const alone = build(tf.layers.batchNormalization());
    const plan: TrainerOptions = { optimizer: 'sgd', learningRate: 0.1, epochs: 2, seed: 1 };
    await new Trainer({ ...plan, batchSize: 12 }).fit(alone, data, { loss: 'softmaxCrossEntropy' });
    await runWorld(3, async (group) => {
      const model = build(new SyncBatchNormalization());
      await new Trainer({ ...plan, batchSize: 4, group }).fit(model, data, { loss: 'softmaxCrossEntropy' });
      for (const [i, value] of valuesOf(model).entries()) expect(value).toBeCloseTo(valuesOf(alone)[i]!, 5);
    });
  });

  test("takes a loss of one's own, per sample or as a mean", async () => {
    const data = points(20);
    const losses = [];
    for (const loss of ['meanSquaredError', perSample, mean] as const) {
      losses.push((await new Trainer({ batchSize: 8 }).fit(classifier(), data, { loss })).losses);
    }
    for (const [step, value] of losses[0]!.entries()) {
      expect(losses[1]![step]).toBeCloseTo(value, 6);
      expect(losses[2]![step]).toBeCloseTo(value, 6);
    }
  });

  test('refuses what cannot be trained, with a sentence', async () => {
    const { xs, ys } = points(6);
    await expect(fit({ xs, ys: ys.slice([0], [5]) })).rejects.toThrow('xs has 6 samples and ys 5');
    await expect(fit({ xs: xs.slice([0], [0]), ys: ys.slice([0], [0]) })).rejects.toThrow('xs has 0 samples');
    expect(() => new Trainer({ batchSize: 0 })).toThrow(/batchSize/);
    expect(() => new Trainer({ strategy: 'data-parallel' })).toThrow(/choose ring/);
    await expect(
      runWorld(2, (group) =>
        new Trainer({ group }).fit(classifier(), { xs: xs.add(group.rank), ys }, { loss: 'softmaxCrossEntropy' }),
      ),
    ).rejects.toThrow(/has other data than the others/);
  });
});
