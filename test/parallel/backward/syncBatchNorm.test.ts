import * as tf from '@tensorflow/tfjs';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import { gradientsOf } from '../../../src/parallel/backward/flatten.ts';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import { passWithoutSamples, gradientsOfPass } from '../../../src/parallel/backward/pass.ts';
import { convertSyncBatchNorm, SyncBatchNormalization } from '../../../src/parallel/backward/syncBatchNorm.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { UsageError } from '../../../src/util/errors.ts';
import { createRng } from '../../../src/util/rng.ts';
import {
  through,
  MODELS,
  seeded,
  build,
  SHARES,
  trainables,
  valuesOf,
  averagesOf,
  lossOf,
  samples,
  passOfOne,
  outcomeOf,
  shareOf,
  passOfMany,
  expectClose,
  sum,
  expectSame,
} from './passes.ts';

const { batchNormalization, conv2d, dense, flatten, permute } = tf.layers;

const aroundImages = (...middle: tf.layers.Layer[]): tf.layers.Layer[] => [
  conv2d({ filters: 3, kernelSize: 2, inputShape: [4, 4, 2] }),
  ...middle,
  flatten(),
  dense({ units: 2 }),
];
const aroundVectors = (middle: tf.layers.Layer): tf.layers.Layer[] => [
  dense({ units: 4, inputShape: [3] }),
  middle,
  dense({ units: 2 }),
];

const sumOf = (output: tf.Tensor): tf.Scalar => output.sum().asScalar();

/** Runs passes, on the second rank without samples, and resolves with their errors. */
async function errorsOfPasses(
  count: number,
  group: ProcessGroup,
  model: tf.LayersModel,
  loss: (output: tf.Tensor) => tf.Scalar,
): Promise<unknown[]> {
  const inputs = tf.randomNormal([group.rank === 1 ? 0 : 4, 3]);
  const errors: unknown[] = [];
  for (let i = 0; i < count; i++) {
    try {
      (await gradientsOfPass(model, { inputs, loss }, trainables(model), 4, group)).dispose();
    } catch (error) {
      errors.push(error);
    }
  }
  inputs.dispose();
  return errors;
}

/** Runs ranks with a model each, and expects that no tensors are left behind. */
async function withoutLeaks(
  n: number,
  run: (group: ProcessGroup, model: tf.LayersModel) => Promise<unknown[]>,
): Promise<string[]> {
  const reference = build('a residual branch and two layers in parallel');
  const models = Array.from({ length: n }, () => convertSyncBatchNorm(reference));
  const before = tf.memory().numTensors;
  const errors = await runWorld(n, (group) => run(group, models[group.rank]!));
  expect(tf.memory().numTensors).toBe(before);
  return errors.flat().map(String);
}

/** A model around a normalization layer. */
const layers = (norm: tf.layers.Layer): tf.LayersModel =>
  tf.sequential({ layers: [tf.layers.dense({ units: 3, inputShape: [2] }), norm, tf.layers.dense({ units: 1 })] });

const squares = (outputs: tf.Tensor, labels: tf.Tensor): tf.Scalar => outputs.sub(labels).square().sum<tf.Scalar>();

/** The batch of all ranks together. */
const whole = (all: tf.Tensor[][], step: number): tf.Tensor => tf.concat(all.map((batches) => batches[step]!));

describe('SyncBatchNormalization', () => {
  test('trains with DDP in join, with different numbers of samples, like BatchNormalization on one rank', async () => {
    // Batches of each rank; one of them ends after a step.
    const shares = [
      [4, 3],
      [2, 0],
      [1, 2],
    ];
    const reference = seeded(layers(tf.layers.batchNormalization()));
    const weights = reference.getWeights().map((weight) => weight.clone());
    const xs = shares.map((sizes, rank) =>
      sizes.map((size, step) => tf.randomNormal([size, 2], 2, 3, 'float32', 10 * step + rank + 1)),
    );
    const ys = xs.map((batches) => batches.map((batch) => batch.sum(1, true).square()));
    const rule = { apply: (params: Float32Array, by: Float32Array) => by.forEach((g, i) => (params[i]! -= 0.01 * g)) };

    const train = async (
      model: tf.LayersModel,
      group: ProcessGroup,
      batches: [tf.Tensor, tf.Tensor][],
    ): Promise<void> => {
      model.setWeights(weights);
      const ddp = await DistributedDataParallel.create(model, group);
      await ddp.join(async () => {
        for (const [inputs, labels] of batches) {
          const loss = (outputs: tf.Tensor): tf.Scalar => squares(outputs, labels);
          await ddp.backward({ inputs, loss }, { samples: inputs.shape[0], reduction: 'sum' });
          ddp.step(rule);
        }
      });
      ddp.dispose();
    };
    await runWorld(1, (group) =>
      train(
        reference,
        group,
        [0, 1].map((step) => [whole(xs, step), whole(ys, step)]),
      ),
    );
    const models = shares.map(() => layers(new SyncBatchNormalization()));
    await runWorld(3, (group) =>
      train(
        models[group.rank]!,
        group,
        // The rank whose second batch is empty leaves the loop before it.
        xs[group.rank]!.map((batch, i): [tf.Tensor, tf.Tensor] => [batch, ys[group.rank]![i]!]).slice(
          0,
          group.rank === 1 ? 1 : 2,
        ),
      ),
    );
    const expected = valuesOf(reference.getWeights()).flat();
    for (const model of models) expectClose(valuesOf(model.getWeights()).flat(), expected, 'weights');
  });

  describe.each(Object.keys(MODELS))('in a model with %s', (name) => {
    test.each(SHARES)(
      'has on ranks with %i, %i, ... samples the results of one rank with all samples',
      async (...shares) => {
        const reference = build(name);
        const batch = samples(
          reference,
          shares.reduce((a, b) => a + b),
        );
        const models = shares.map(() => convertSyncBatchNorm(reference));
        const ranks = await passOfMany(models, batch, shares);
        const one = passOfOne(reference, batch);
        expectSame(ranks, one);
        if (reference.outputs.length === 1) {
          const outputs = ranks.flatMap((rank) => rank.outputs);
          expectClose(outputs, one.outputs, 'outputs');
        }
      },
    );
  });

  test('can normalize an axis that is not the last one', async () => {
    // TensorFlow.js's layer does not train with another axis, so the reference moves the axis.
    const reference = seeded(
      tf.sequential({
        layers: aroundImages(permute({ dims: [3, 2, 1] }), batchNormalization(), permute({ dims: [3, 2, 1] })),
      }),
    );
    const models = [0, 1].map(() => {
      const model = tf.sequential({ layers: aroundImages(new SyncBatchNormalization({ axis: 1 })) });
      model.setWeights(reference.getWeights());
      return model;
    });
    const batch = samples(reference, 5);
    expectSame(await passOfMany(models, batch, [2, 3]), passOfOne(reference, batch));
  });

  test.each([
    ['gamma', { scale: false }],
    ['beta', { center: false }],
    ['gamma and beta', { scale: false, center: false }],
  ])('trains without %s', async (_what, args) => {
    // TensorFlow.js's layer does not train without gamma or beta, so the reference has the missing
    // weights at their neutral values.
    const reference = seeded(tf.sequential({ layers: aroundVectors(batchNormalization()) }));
    reference.layers[1]!.setWeights([tf.ones([4]), tf.zeros([4]), tf.zeros([4]), tf.ones([4])]);
    const models = [0, 1].map(() => {
      const model = tf.sequential({ layers: aroundVectors(new SyncBatchNormalization(args)) });
      for (const i of [0, 2]) model.layers[i]!.setWeights(reference.layers[i]!.getWeights());
      return model;
    });
    const batch = samples(reference, 5);
    const one = passOfOne(reference, batch);
    const missing = [...('scale' in args ? [2] : []), ...('center' in args ? [3] : [])];
    one.gradients = one.gradients.filter((_, i) => !missing.includes(i));
    expectSame(await passOfMany(models, batch, [2, 3]), one);
  });

  test('has in many steps of SGD the same results on three ranks as on one', async () => {
    const reference = build('four dimensions');
    const shares = [3, 0, 4];
    const total = 7;
    const rate = 0.05;
    const models = shares.map(() => convertSyncBatchNorm(reference));
    const apply = (model: tf.LayersModel, gradients: readonly number[][]): void => {
      for (const [i, variable] of trainables(model).entries()) {
        variable.assign(variable.sub(tf.tensor(gradients[i]!, variable.shape).mul(rate / total)));
      }
    };
    for (let step = 0; step < 6; step++) {
      const batch = samples(reference, total, 100 + step);
      const ranks = await passOfMany(models, batch, shares);
      const one = passOfOne(reference, batch);
      expectSame(ranks, one);
      apply(reference, one.gradients);
      const summed = one.gradients.map((_, i) => sum(ranks.map(({ gradients }) => gradients[i]!)));
      for (const model of models) apply(model, summed);
    }
    for (const model of models) {
      expectClose(valuesOf(model.getWeights()).flat(), valuesOf(reference.getWeights()).flat(), 'weights');
    }
  });

  test('back-propagates with the dropout mask of the forward pass', async () => {
    // The masks are the same in every run of the test and different in every call. With a seed of
    // the layer, the mask would be the same in every call.
    const rng = createRng(7);
    const random = vi.spyOn(Math, 'random').mockImplementation(() => rng.next());
    onTestFinished(() => random.mockRestore());
    const models = [0, 1].map(() => {
      const input = tf.input({ shape: [4] });
      const dropped = through(
        tf.layers.dropout({ rate: 0.5 }),
        through(dense({ units: 4, useBias: false, kernelInitializer: 'ones' }), input),
      );
      const outputs = through(
        dense({ units: 2, kernelInitializer: 'ones' }),
        through(new SyncBatchNormalization(), dropped),
      );
      return tf.model({ inputs: input, outputs: [outputs, dropped] });
    });
    const { inputs, targets } = samples(models[0]!, 8);
    const ranks = await runWorld(2, async (group) => {
      const model = models[group.rank]!;
      const own = (tensor: tf.Tensor): tf.Tensor => shareOf(tensor, [3, 5], group.rank);
      let mask: tf.Tensor = tf.zeros([0]);
      const loss = ([output, dropped]: [tf.Tensor, tf.Tensor]): tf.Scalar => {
        mask = tf.keep(dropped.notEqual(0).cast('float32').mul(2));
        return lossOf(own(targets), [output]);
      };
      const size = [3, 5][group.rank]!;
      const { gradients } = await gradientsOfPass(
        model,
        { inputs: inputs.map(own), loss },
        trainables(model),
        size,
        group,
      );
      return { mask, gradients: valuesOf(gradients) };
    });
    const mask = tf.concat(ranks.map((rank) => rank.mask));
    expect(new Set(mask.dataSync())).toEqual(new Set([0, 2]));

    const kernel = tf.variable(tf.ones([4, 4]));
    const [norm, last] = [batchNormalization(), dense({ units: 2, kernelInitializer: 'ones' })];
    const one = gradientsOf(
      () => {
        const normalized = norm.apply(inputs[0]!.matMul(kernel).mul(mask), { training: true });
        return lossOf(targets, [last.apply(normalized) as tf.Tensor]);
      },
      [kernel],
      8,
    );
    expectClose(sum(ranks.map(({ gradients }) => gradients[0]!)), valuesOf(one.gradients)[0]!, 'gradient');
  });

  test('needs one collective in each direction for all layers that are ready at the same time', async () => {
    const reference = build('a residual branch and two layers in parallel');
    const model = [0, 1].map(() => convertSyncBatchNorm(reference));
    const { inputs, targets } = samples(reference, 4);
    await runWorld(2, async (group) => {
      const [allGather, allReduce] = [vi.spyOn(group, 'allGather'), vi.spyOn(group, 'allReduce')];
      const pass = { inputs, loss: (output: tf.Tensor) => lossOf(targets, [output]) };
      await gradientsOfPass(model[group.rank]!, pass, trainables(model[group.rank]!), 4, group);
      expect([allGather, allReduce].map((spy) => spy.mock.calls.length)).toEqual([2, 2]);
    });
  });

  test.each([
    ['on a single rank', 1, convertSyncBatchNorm],
    ['without a SyncBatchNormalization layer', 2, (model: tf.LayersModel) => model],
  ])('needs no collective in a model %s', async (_what, n, prepare) => {
    const reference = build('two dimensions');
    const model = prepare(reference);
    const batch = samples(reference, 4);
    const before = averagesOf(reference);
    const one = passOfOne(reference, batch);
    await runWorld(n, async (group) => {
      const sent = group.bytesSent;
      for (const [i, weight] of model.nonTrainableWeights.entries()) weight.write(tf.tensor(before[i]!));
      const pass = { inputs: batch.inputs, loss: (output: tf.Tensor) => lossOf(batch.targets, [output]) };
      const many = outcomeOf(model, await gradientsOfPass(model, pass, trainables(model), 4, group), 4);
      expectSame([many], one);
      expect(group.bytesSent).toBe(sent);
    });
  });

  test('does not change its running averages in a pass in which no rank has samples', async () => {
    const reference = build('two dimensions');
    const models = [0, 1].map(() => convertSyncBatchNorm(reference));
    const ranks = await passOfMany(models, samples(reference, 0), [0, 0]);
    for (const { loss, gradients, averages } of ranks) {
      expect([loss, ...gradients.flat()].every((element) => element === 0)).toBe(true);
      expect(averages).toEqual(averagesOf(reference));
    }
  });

  describe('leaves no tensors behind', () => {
    test('after a hundred passes', async () => {
      expect(await withoutLeaks(2, (group, model) => errorsOfPasses(100, group, model, sumOf))).toEqual([]);
    });

    test('if the loss throws', async () => {
      const errors = await withoutLeaks(3, (group, model) =>
        errorsOfPasses(1, group, model, (output) => {
          output.square();
          // The rank without samples waits for the others, which fail.
          group.abort(new Error('the loss is wrong'));
          throw new Error('the loss is wrong');
        }),
      );
      expect(errors).toEqual([1, 2, 3].map(() => expect.stringContaining('the loss is wrong') as string));
    });

    test('if a collective fails', async () => {
      const errors = await withoutLeaks(2, (group, model) => {
        if (group.rank === 0) return errorsOfPasses(1, group, model, sumOf);
        group.abort(new Error('the other rank left'));
        return Promise.resolve([]);
      });
      expect(errors).toEqual([expect.stringContaining('the other rank left')]);
    });
  });

  test('equals BatchNormalization without a process group', () => {
    const plain = build('four dimensions');
    const model = convertSyncBatchNorm(plain);
    const batch = samples(plain, 6);
    expectSame([passOfOne(model, batch)], passOfOne(plain, batch));
    const [ours, theirs] = [model, plain].map((one) => valuesOf([one.predict(batch.inputs) as tf.Tensor])[0]!);
    expectClose(ours!, theirs!, 'inference');
  });

  test('can be restored from JSON', async () => {
    const model = tf.sequential({
      layers: [
        dense({ units: 4, inputShape: [4] }),
        new SyncBatchNormalization({ axis: 1, momentum: 0.7, epsilon: 0.02, scale: false, betaInitializer: 'ones' }),
      ],
    });
    const [layer] = model.layers.slice(1);
    const theirs = batchNormalization({
      name: layer!.name,
      axis: 1,
      momentum: 0.7,
      epsilon: 0.02,
      scale: false,
      betaInitializer: 'ones',
    });
    expect(layer!.getConfig()).toEqual(theirs.getConfig());
    const restored = await tf.models.modelFromJSON(
      JSON.parse(model.toJSON() as string) as Parameters<typeof tf.models.modelFromJSON>[0],
    );
    expect(restored.layers[1]).toBeInstanceOf(SyncBatchNormalization);
    expect(restored.layers[1]!.getConfig()).toEqual(layer!.getConfig());
    expect(restored.weights.map(({ originalName }) => originalName)).toEqual(
      model.weights.map(({ originalName }) => originalName),
    );
  });

  test('is rejected inside wrapper layers and in models with masks', async () => {
    const wrapped = tf.sequential({
      layers: [tf.layers.timeDistributed({ layer: new SyncBatchNormalization(), inputShape: [2, 3] })],
    });
    const masked = tf.sequential({
      layers: [tf.layers.masking({ inputShape: [2, 3] }), new SyncBatchNormalization()],
    });
    await runWorld(2, async (group) => {
      for (const [model, message] of [
        [wrapped, /wraps a SyncBatchNormalization/],
        [masked, /creates a mask/],
      ] as const) {
        const pass = gradientsOfPass(model, { inputs: tf.ones([2, 2, 3]), loss: sumOf }, trainables(model), 1, group);
        await expect(pass).rejects.toThrow(UsageError);
        await expect(pass).rejects.toThrow(message);
      }
      const pair = { inputs: [tf.ones([2, 2, 3]), tf.ones([2, 2, 3])], loss: sumOf };
      await expect(gradientsOfPass(masked, pair, [], 1, group)).rejects.toThrow(/has 1 input\(s\).*the pass has 2/);
    });
  });
});

describe('a pass that is a function', () => {
  test.each(Object.keys(MODELS))(
    'is rejected on every rank if the model has SyncBatchNormalization: %s',
    async (name) => {
      const errors: unknown[] = [];
      await runWorld(2, async (group) => {
        const model = convertSyncBatchNorm(build(name));
        const ddp = await DistributedDataParallel.create(model, group);
        for (const count of [4, 0]) {
          const pass = ddp.backward(() => tf.scalar(1), { samples: count });
          await pass.catch((error: unknown) => errors.push(error));
        }
        ddp.dispose();
      });
      expect(errors).toHaveLength(4);
      for (const error of errors) {
        expect(error).toBeInstanceOf(UsageError);
        expect(String(error)).toMatch(/has SyncBatchNormalization layers.*Pass the model's inputs/);
      }
    },
  );

  test('trains a model with SyncBatchNormalization on a single rank', async () => {
    await runWorld(1, async (group) => {
      const model = convertSyncBatchNorm(build('two dimensions'));
      const ddp = await DistributedDataParallel.create(model, group);
      const { inputs } = samples(model, 3);
      const loss = (): tf.Scalar => (model.apply(inputs, { training: true }) as tf.Tensor).square().mean().asScalar();
      expect((await ddp.backward(loss, { samples: 3 })).loss).toBeGreaterThan(0);
    });
  });
});

test('a rank without samples creates no tensor if the model has no SyncBatchNormalization', async () => {
  const model = build('two dimensions');
  const made = vi.spyOn(tf.engine(), 'makeTensor');
  await runWorld(2, (group) => passWithoutSamples({ model, parameters: trainables(model) }, group));
  expect(made).not.toHaveBeenCalled();
  made.mockRestore();
});
