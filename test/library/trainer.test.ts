/**
 * Tests the library's Trainer, in process groups with memory links, on TensorFlow.js's CPU backend.
 */
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { Trainer, roomOptionsOfTrainer, type TrainerOptions } from '../../src/library/trainer.ts';
import { SyncBatchNormalization } from '../../src/parallel/backward/syncBatchNorm.ts';
import { STRATEGIES } from '../../src/spec/strategies.ts';
import { runWorld } from '../../src/testing/index.ts';
import { AbortError, UsageError } from '../../src/util/errors.ts';
import { createRng } from '../../src/util/rng.ts';
import { errorOf } from '../errorOf.ts';

/** Returns points of a plane. The labels say on which side of a line they are, one-hot encoded. */
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

const linear = (units: number): tf.LayersModel => {
  const model = tf.sequential({ layers: [tf.layers.dense({ units, inputShape: [2] })] });
  model.setWeights(model.getWeights().map((weight) => tf.zerosLike(weight)));
  return model;
};

const valuesOf = (model: tf.LayersModel): number[] =>
  model.getWeights().flatMap((weight) => Array.from(weight.dataSync()));

/** Builds a model with this normalization layer. */
const build = (norm: tf.layers.Layer): tf.LayersModel => {
  const model = tf.sequential({
    layers: [tf.layers.dense({ units: 2, inputShape: [2] }), norm, tf.layers.dense({ units: 2 })],
  });
  for (const layer of [model.layers[0]!, model.layers[2]!]) layer.setWeights(weights());
  return model;
};

/** Builds a model with this normalization layer and a regularizer of the kernels. */
const regularized = (norm: tf.layers.Layer): tf.LayersModel => {
  const kernelRegularizer = tf.regularizers.l2({ l2: 0.5 });
  const first = tf.layers.dense({ units: 2, inputShape: [2], kernelRegularizer });
  const model = tf.sequential({ layers: [first, norm, tf.layers.dense({ units: 2, kernelRegularizer })] });
  for (const layer of [model.layers[0]!, model.layers[2]!]) layer.setWeights(weights());
  return model;
};

const perSample = (labels: tf.Tensor, outputs: tf.Tensor) => outputs.sub(labels).square().mean(-1);
const mean = (labels: tf.Tensor, outputs: tf.Tensor) => outputs.sub(labels).square().mean();

const fit = (samples: { xs: tf.Tensor; ys: tf.Tensor }) =>
  new Trainer().fit(classifier(), samples, { loss: 'softmaxCrossEntropy' });

const trainerWith = (options: object) => () => new Trainer(options);

const PLAN: TrainerOptions = { optimizer: 'adam', learningRate: 0.2, epochs: 3, seed: 3 };

describe('Trainer', () => {
  test('trains one model if each rank has its own training and held-out samples', async () => {
    const { xs, ys } = points(60);
    const part = (from: number, size: number) => ({ xs: xs.slice(from, size), ys: ys.slice(from, size) });
    const parts = [part(0, 30), part(30, 10), part(40, 20)];
    const models = parts.map(() => classifier());
    const results = await runWorld(3, (group) =>
      new Trainer({ group, batchSize: 6, epochs: 30, optimizer: 'adam', learningRate: 0.05 }).fit(
        models[group.rank]!,
        parts[group.rank]!,
        {
          ...{ loss: 'softmaxCrossEntropy', shard: true },
          ...(group.rank < 2 && { validation: part(10 * group.rank, 10 + group.rank) }),
        },
      ),
    );
    for (const result of results) expect(result).toMatchObject({ steps: 150, epochs: 30, worldSize: 3 });
    const { accuracy, confusion } = results[2]!;
    expect(accuracy).toBeGreaterThan(0.9);
    expect(confusion!.counts.flat().reduce((sum, one) => sum + one, 0)).toBe(21);
    for (const model of models) expect(valuesOf(model)).toEqual(valuesOf(models[0]!));
  });

  test('computes on N ranks what one rank computes on the whole batch, and reports loss and accuracy', async () => {
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

  test('stops early with `patience`, and keeps the weights of the last step', async () => {
    // The learning rate is too high, so each evaluation has a larger loss than the previous one.
    const samples = { xs: tf.ones([4, 2]), ys: tf.ones([4, 1]) };
    const model = linear(1);
    const options = { loss: 'meanSquaredError', validation: samples } as const;
    const trainer = new Trainer({ optimizer: 'sgd', learningRate: 0.4, batchSize: 4, epochs: 50, patience: 2 });
    const { steps, best, valLoss } = await trainer.fit(model, samples, options);
    expect({ steps, best: best!.step }).toEqual({ steps: 3, best: 1 });
    expect(valLoss).toBeGreaterThan(best!.valLoss);
    const [loss] = await mean(samples.ys, model.predict(samples.xs) as tf.Tensor).data();
    expect(loss).toBeCloseTo(valLoss!, 4);
  });

  test('calls callbacks in the order of TensorFlow.js, and awaits them', async () => {
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

  test('calls batch callbacks before and after each update, and epoch callbacks with results on all held-out samples', async () => {
    const data = points(600);
    const model = classifier();
    const calls: { name: string; weights: number[]; logs?: tf.Logs | undefined }[] = [];
    const note =
      (name: string) =>
      (_at: number, logs?: tf.Logs): void =>
        void calls.push({ name, weights: valuesOf(model), logs });
    await new Trainer({
      ...{ ...PLAN, epochs: 2, batchSize: 200, learningRate: 0.05 },
      callbacks: {
        ...{ onEpochBegin: note('epoch'), onEpochEnd: note('ended') },
        ...{ onBatchBegin: note('batch'), onBatchEnd: note('done') },
      },
    }).fit(model, data, { loss: 'softmaxCrossEntropy', validation: data });
    const pass = ['epoch', 'batch', 'done', 'batch', 'done', 'batch', 'done', 'ended'];
    expect(calls.map(({ name }) => name)).toEqual([...pass, ...pass]);
    for (const [i, { name, weights: now }] of calls.slice(1).entries()) {
      if (name === 'done') expect(now).not.toEqual(calls[i]!.weights);
      else expect(now).toEqual(calls[i]!.weights);
    }
    for (const { name, weights: now, logs } of calls) {
      if (name === 'batch') expect(logs!['size']).toBe(200);
      if (name !== 'ended') continue;
      const then = classifier();
      then.setWeights([tf.tensor2d(now.slice(0, 4), [2, 2]), tf.tensor1d(now.slice(4))]);
      const outputs = then.predict(data.xs) as tf.Tensor;
      expect(logs!['val_loss']).toBeCloseTo((await tf.losses.softmaxCrossEntropy(data.ys, outputs).data())[0]!, 4);
      const right = outputs.argMax(-1).equal(data.ys.argMax(-1)).sum();
      expect(logs!['val_acc']).toBeCloseTo((await right.data())[0]! / 600, 6);
    }
  });

  test('reports no held-out results after an epoch at whose end ranks have different parameters', async () => {
    const data = points(24);
    await runWorld(2, async (group) => {
      const logs: tf.Logs[] = [];
      const sizes: number[] = [];
      const local: TrainerOptions = { strategy: 'local-sgd', syncEvery: 4, epochs: 3, batchSize: 4, group };
      await new Trainer({
        ...local,
        callbacks: {
          onEpochEnd: (_epoch, log) => void logs.push(log!),
          onBatchBegin: (_batch, log) => void sizes.push(log!['size']!),
        },
      }).fit(classifier(), data, { loss: 'softmaxCrossEntropy', validation: data });
      // Ranks synchronize after steps 4 and 8 and at the end. Epochs end after steps 3, 6 and 9.
      expect(logs.map((log) => Object.keys(log))).toEqual([['loss'], ['loss'], ['loss', 'val_loss', 'val_acc']]);
      expect(sizes).toEqual(Array.from({ length: 9 }, () => 4));
    });
  });

  test("calls a callback's methods with the callback as `this`", async () => {
    class Counter {
      batches = 0;
      onBatchEnd(): void {
        this.batches += 1;
      }
    }
    const counter = new Counter();
    await new Trainer({ batchSize: 8, callbacks: [counter] }).fit(classifier(), points(16), { loss: perSample });
    expect(counter.batches).toBe(2);
  });

  test.each(['ddp', 'parameter-server', 'local-sgd', 'diloco', 'async-parameter-server'] as const)(
    'keeps running averages of batch normalization equal on all ranks with %s, and leaks no tensor',
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
      const period = STRATEGIES[strategy].settings.includes('syncEvery') && { syncEvery: 2 };
      await runWorld(2, (group) =>
        new Trainer({ epochs: 2, batchSize: 8, strategy, ...period, group }).fit(models[group.rank]!, data, {
          loss: 'categoricalCrossentropy',
        }),
      );
      expect(valuesOf(models[1]!)).toEqual(valuesOf(models[0]!));
      expect(tf.memory().numTensors).toBe(before);
    },
  );

  test('synchronizes batch normalization if the model has a SyncBatchNormalization layer', async () => {
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

  test('accepts a custom loss that returns a value per sample or the mean', async () => {
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

  test('accepts labels [n] for outputs [n, 1], as model.fit does, and rejects labels that would need broadcasting', async () => {
    const { xs } = points(12);
    const wanted = xs.sum(1, true);
    const learned = [];
    for (const ys of [wanted, wanted.reshape([12])]) {
      const model = linear(1);
      const validation = { xs, ys };
      const { valLoss } = await new Trainer(PLAN).fit(model, { xs, ys }, { loss: 'meanSquaredError', validation });
      learned.push([valLoss, ...valuesOf(model)]);
    }
    expect(learned[1]).toEqual(learned[0]);
    const refused = async (model: tf.LayersModel, ys: tf.Tensor, message: string) => {
      const training = new Trainer().fit(model, { xs, ys }, { loss: 'meanSquaredError' });
      await expect(training).rejects.toThrow(UsageError);
      await expect(training).rejects.toThrow(message);
    };
    await refused(linear(2), wanted, 'outputs are [*, 2], but the labels are [12, 1]');
    await refused(linear(2), wanted.reshape([12]), 'outputs are [*, 2], but the labels are [12]');
    await refused(linear(1), xs, 'outputs are [*, 1], but the labels are [12, 2]');
    // A length that only the data determines.
    const open = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [null, 2] })] });
    const training = new Trainer().fit(
      open,
      { xs: xs.reshape([3, 4, 2]), ys: tf.ones([3, 1, 1]) },
      { loss: 'meanSquaredError' },
    );
    await expect(training).rejects.toThrow('outputs are [3, 4, 1], but the labels are [3, 1, 1]');
  });

  test('averages loss and accuracy over all positions of a sequence', async () => {
    const xs = tf.tensor3d([[[1, 0], [0, 1]], [[1, 0], [1, 0]]]); // prettier-ignore
    const ys = tf.tensor3d([[[1, 0], [1, 0]], [[1, 0], [0, 1]]]); // prettier-ignore
    const same = tf.sequential({
      layers: [tf.layers.dense({ units: 2, inputShape: [2, 2], kernelInitializer: 'identity' })],
    });
    const plan = { learningRate: 1e-6, batchSize: 2 };
    const validation = { xs, ys };
    const squared = await new Trainer(plan).fit(same, { xs, ys }, { loss: 'meanSquaredError' });
    expect(squared.loss).toBeCloseTo(0.5, 4);
    expect(squared.accuracy).toBeNull();
    const entropy = await new Trainer(plan).fit(same, { xs, ys }, { loss: 'softmaxCrossEntropy', validation });
    expect(entropy.accuracy).toBe(0.5);
    const one = await tf.losses.softmaxCrossEntropy(ys, xs).data();
    expect(entropy.loss).toBeCloseTo(one[0]!, 4);
    expect(entropy.valLoss).toBeCloseTo(one[0]!, 4);
  });

  test('adds the regularizers of layers to the loss, as model.fit does, on one rank and on several', async () => {
    const data = points(12);
    const alone = regularized(tf.layers.batchNormalization());
    const keras = regularized(tf.layers.batchNormalization());
    keras.compile({ optimizer: tf.train.sgd(0.1), loss: 'meanSquaredError' });
    const { history } = await keras.fit(data.xs, data.ys, { epochs: 2, batchSize: 12, verbose: 0, shuffle: false });
    const plan: TrainerOptions = { optimizer: 'sgd', learningRate: 0.1, epochs: 2 };
    const options = { loss: 'meanSquaredError' } as const;
    const one = await new Trainer({ ...plan, batchSize: 12 }).fit(alone, data, options);
    for (const [i, loss] of one.losses.entries()) expect(loss).toBeCloseTo(Number(history['loss']![i]), 5);
    await runWorld(3, async (group) => {
      const model = regularized(new SyncBatchNormalization());
      const result = await new Trainer({ ...plan, batchSize: 4, group }).fit(model, data, options);
      for (const [i, loss] of one.losses.entries()) expect(result.losses[i]).toBeCloseTo(loss, 5);
      for (const [i, value] of valuesOf(model).entries()) expect(value).toBeCloseTo(valuesOf(alone)[i]!, 5);
    });
  });

  test('rejects samples, options and models that cannot be trained, with the reason', async () => {
    const { xs, ys } = points(6);
    await expect(fit({ xs, ys: ys.slice([0], [5]) })).rejects.toThrow('xs has 6 samples, but ys has 5 labels');
    await expect(fit({ xs: xs.slice([0], [0]), ys: ys.slice([0], [0]) })).rejects.toThrow('xs has 0 samples');
    expect(trainerWith({ batchSize: 0 })).toThrow(/^Trainer's options are not valid: batchSize: /);
    expect(trainerWith({ momentum: 0.5 })).toThrow(
      'Trainer has no option "momentum": choose one of optimizer, learningRate, ',
    );
    expect(trainerWith({ model: 'cnn' })).toThrow(UsageError);
    expect(trainerWith({ group: null, tabs: undefined, epochs: undefined })).not.toThrow();
    const named = new Trainer().fit(classifier(), { xs, ys }, { loss: 'mse' as never });
    await expect(named).rejects.toThrow(
      /^There is no loss "mse"\. Pass one of these names: meanSquaredError, .* Or pass a function/,
    );
    await expect(named).rejects.toThrow(UsageError);
    const crossed = new Trainer().fit(classifier(), { xs, ys }, { loss: (labels, outputs) => outputs.matMul(labels, false, true).sum(0).slice([0], [2]) }); // prettier-ignore
    await expect(crossed).rejects.toThrow('The loss of 6 samples has shape [2]');
    expect(() => new Trainer({ measure: 'methods' })).toThrow(/remove the option measure/);
    await expect(
      runWorld(2, (group) =>
        new Trainer({ group }).fit(classifier(), { xs: xs.add(group.rank), ys }, { loss: 'softmaxCrossEntropy' }),
      ),
    ).rejects.toThrow(
      /differs from the data of the other ranks: give every tab the same samples, in the same order\.$/,
    );
  });

  test('reports the links of the given group, and none without a group', async () => {
    const results = await runWorld(2, (group) =>
      new Trainer({ group }).fit(classifier(), points(8), { loss: 'softmaxCrossEntropy' }),
    );
    expect(results.map(({ transport }) => transport)).toEqual([
      { webrtc: 0, server: 0, memory: 1 },
      { webrtc: 0, server: 0, memory: 1 },
    ]);
    expect((await fit(points(8))).transport).toEqual({ webrtc: 0, server: 0, memory: 0 });
  });

  test("trains alone unless several tabs or a room are given; a room code in the page's URL gives the room", () => {
    expect(roomOptionsOfTrainer({}, '')).toBeNull();
    expect(roomOptionsOfTrainer({ tabs: 1 }, '')).toBeNull();
    expect(roomOptionsOfTrainer({ tabs: 1 }, '#K7F3QX')).toBeNull();
    expect(roomOptionsOfTrainer({ tabs: 4 }, '')).toEqual({ worldSize: 4 });
    expect(roomOptionsOfTrainer({ tabs: 4 }, '#K7F3QX')).toEqual({ room: 'K7F3QX', worldSize: 4 });
    expect(roomOptionsOfTrainer({}, '#K7F3QX')).toEqual({ room: 'K7F3QX' });
    expect(roomOptionsOfTrainer({ room: 'abc-def' }, '#K7F3QX')).toEqual({ room: 'abc-def' });
    expect(roomOptionsOfTrainer({ room: 'abc-def', tabs: 1 }, '')).toEqual({ room: 'abc-def', worldSize: 1 });
    // These are anchors of a page, not rooms.
    expect(roomOptionsOfTrainer({}, '#header')).toBeNull();
    expect(roomOptionsOfTrainer({ tabs: 2 }, '#header')).toEqual({ worldSize: 2 });
  });
});

test('ends on every rank when the signal of fit is aborted, and leaves no tensor', async () => {
  const { xs, ys } = points(64);
  const models = [classifier(), classifier()];
  const before = tf.memory();
  const stop = new AbortController();
  let steps = 0;
  const errors = await runWorld(2, (group) => {
    const onBatchEnd = (): void => {
      steps += 1;
      if (steps === 4) stop.abort(new Error('The user pressed Stop.'));
    };
    const trainer = new Trainer({ group, epochs: 1000, batchSize: 8, callbacks: { onBatchEnd } });
    const signal = group.rank === 0 ? { signal: stop.signal } : {};
    return errorOf(trainer.fit(models[group.rank]!, { xs, ys }, { loss: 'softmaxCrossEntropy', ...signal }));
  });
  for (const error of errors) {
    expect(error).toBeInstanceOf(AbortError);
    expect(error.message).toContain('the signal of rank 0 ended fit: The user pressed Stop.');
  }
  const { numTensors, numBytes } = tf.memory();
  expect([numTensors, numBytes]).toEqual([before.numTensors, before.numBytes]);
});
