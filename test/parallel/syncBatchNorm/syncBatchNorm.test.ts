import * as tf from '@tensorflow/tfjs';
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import type { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import { gradientsOf, type Gradients, type Variable } from '../../../src/parallel/ddp/flatten.ts';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import { attendPass } from '../../../src/parallel/ddp/pass.ts';
import { gradientsOfPass } from '../../../src/parallel/ddp/pass.ts';
import { convertSyncBatchNorm, SyncBatchNormalization } from '../../../src/parallel/syncBatchNorm/syncBatchNorm.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { UsageError } from '../../../src/util/errors.ts';
import { createRng } from '../../../src/util/rng.ts';

beforeAll(async () => {
  await tf.setBackend('cpu');
});

const { batchNormalization, concatenate, conv2d, dense, flatten, permute } = tf.layers;
const add = (...inputs: tf.SymbolicTensor[]): tf.SymbolicTensor => tf.layers.add().apply(inputs) as tf.SymbolicTensor;
const through = (layer: tf.layers.Layer, input: tf.SymbolicTensor | tf.SymbolicTensor[]): tf.SymbolicTensor =>
  layer.apply(input) as tf.SymbolicTensor;

/** Models with BatchNormalization, as a single rank trains them. */
const MODELS: Record<string, () => tf.LayersModel> = {
  'two dimensions': () =>
    tf.sequential({
      layers: [dense({ units: 5, inputShape: [3] }), batchNormalization(), dense({ units: 2, activation: 'tanh' })],
    }),
  'four dimensions': () =>
    tf.sequential({
      layers: [
        conv2d({ filters: 3, kernelSize: 2, inputShape: [4, 4, 2] }),
        batchNormalization(),
        conv2d({ filters: 2, kernelSize: 2, activation: 'tanh' }),
        batchNormalization({ momentum: 0.5, epsilon: 0.01 }),
        flatten(),
        dense({ units: 2 }),
      ],
    }),
  'layers next to each other, first and last': () =>
    tf.sequential({
      layers: [
        batchNormalization({ inputShape: [3] }),
        batchNormalization(),
        dense({ units: 2 }),
        batchNormalization(),
      ],
    }),
  'a residual branch and two layers in parallel': () => {
    const input = tf.input({ shape: [3] });
    const trunk = through(dense({ units: 4, activation: 'tanh' }), input);
    const left = through(batchNormalization(), through(dense({ units: 4 }), trunk));
    const right = through(batchNormalization(), through(dense({ units: 4 }), trunk));
    // The trunk goes past both cuts, one branch past the second.
    const joined = through(batchNormalization(), add(left, right, trunk));
    return tf.model({ inputs: input, outputs: through(dense({ units: 2 }), add(joined, left)) });
  },
  'layers shared by two branches and by two depths': () => {
    const input = tf.input({ shape: [3] });
    const [hidden, norm] = [dense({ units: 3, activation: 'tanh' }), batchNormalization({ momentum: 0.6 })];
    const left = through(norm, through(hidden, input));
    const right = through(norm, input);
    return tf.model({ inputs: input, outputs: through(norm, through(hidden, add(left, right))) });
  },
  'several inputs, and outputs from before and behind the cuts': () => {
    const inputs = [tf.input({ shape: [3] }), tf.input({ shape: [3] })];
    const early = through(dense({ units: 2 }), inputs[1]!);
    const normalized = through(batchNormalization(), through(concatenate(), [inputs[0]!, early]));
    const late = through(dense({ units: 2 }), through(concatenate(), [normalized, inputs[1]!]));
    return tf.model({ inputs, outputs: [late, early] });
  },
  'a layer that the outputs do not depend on beyond its cut': () => {
    const input = tf.input({ shape: [3] });
    const hidden = through(dense({ units: 3 }), input);
    return tf.model({
      inputs: input,
      outputs: [through(dense({ units: 2 }), hidden), through(batchNormalization(), hidden)],
    });
  },
  'a nested model, used twice': () => {
    const inner = tf.sequential({ layers: [dense({ units: 3, inputShape: [3] }), batchNormalization()] });
    const input = tf.input({ shape: [3] });
    return tf.model({ inputs: input, outputs: through(inner, through(inner, input)) });
  },
};

/**
 * The model with the same weights in every run, none of them at a value that would hide a mistake.
 */
function seeded(model: tf.LayersModel): tf.LayersModel {
  for (const [i, weight] of model.trainableWeights.entries()) {
    weight.write(tf.randomNormal(weight.shape as number[], 0.3, 0.6, 'float32', i + 1));
  }
  return model;
}

const build = (name: string): tf.LayersModel => seeded(MODELS[name]!());

const SHARES = [
  [4, 4],
  [5, 0, 3],
  [2, 1, 2, 3],
  [0, 7],
];

/** What one pass gives, as numbers. */
interface Outcome {
  samples: number;
  /** Summed over samples, as are gradients. */
  loss: number;
  outputs: number[];
  gradients: number[][];
  averages: number[][];
}

const trainables = (model: tf.LayersModel): Variable[] =>
  model.trainableWeights.map((weight) => weight.read() as Variable);
const valuesOf = (tensors: readonly tf.Tensor[]): number[][] => tensors.map((tensor) => Array.from(tensor.dataSync()));
const averagesOf = (model: tf.LayersModel): number[][] =>
  valuesOf(model.nonTrainableWeights.map((weight) => weight.read()));

/**
 * The mean over samples of how far all outputs are from a target that differs by sample and output.
 */
function lossOf(targets: tf.Tensor, outputs: readonly tf.Tensor[]): tf.Scalar {
  return tf
    .addN(
      outputs.map((output, i) =>
        output
          .sub(targets.mul(i + 1))
          .square()
          .sum(-1)
          .mean(),
      ),
    )
    .asScalar();
}

/** Inputs off centre, so that statistics matter, and targets of `count` samples. */
function samples(model: tf.LayersModel, count: number, seed = 1): { inputs: tf.Tensor[]; targets: tf.Tensor } {
  const inputs = model.inputs.map(({ shape }, i) =>
    tf.randomNormal([count, ...shape.slice(1).map((size) => size!)], 3, 2, 'float32', seed + i),
  );
  return { inputs, targets: tf.randomNormal([count, 1], 0, 1, 'float32', seed + 10) };
}

/** A pass of one rank with the whole batch, as TensorFlow.js does it. */
function passOfOne(model: tf.LayersModel, { inputs, targets }: ReturnType<typeof samples>): Outcome {
  let outputs: number[] = [];
  const computed = gradientsOf(
    () => {
      const results = [model.apply(inputs, { training: true }) as tf.Tensor | tf.Tensor[]].flat();
      outputs = valuesOf(results).flat();
      return lossOf(targets, results);
    },
    trainables(model),
    targets.shape[0],
  );
  return outcomeOf(model, computed, targets.shape[0], outputs);
}

function outcomeOf(
  model: tf.LayersModel,
  { value, gradients }: Gradients,
  count: number,
  outputs: number[] = [],
): Outcome {
  const [loss] = value.dataSync();
  return { samples: count, loss: loss!, outputs, gradients: valuesOf(gradients), averages: averagesOf(model) };
}

/** A rank's samples of the whole batch. */
function shareOf(tensor: tf.Tensor, shares: readonly number[], rank: number): tf.Tensor {
  const start = shares.slice(0, rank).reduce((sum, share) => sum + share, 0);
  const [, ...rest] = tensor.shape;
  return tensor.slice([start, ...rest.map(() => 0)], [shares[rank]!, ...rest]);
}

/** A pass of as many ranks as there are shares; what each of them has. */
function passOfMany(
  models: readonly tf.LayersModel[],
  { inputs, targets }: ReturnType<typeof samples>,
  shares: readonly number[],
): Promise<Outcome[]> {
  return runWorld(shares.length, async (group) => {
    const model = models[group.rank]!;
    const own = (tensor: tf.Tensor): tf.Tensor => shareOf(tensor, shares, group.rank);
    let outputs: number[] = [];
    const loss = (results: tf.Tensor | tf.Tensor[]): tf.Scalar => {
      outputs = valuesOf([results].flat()).flat();
      return lossOf(own(targets), [results].flat());
    };
    const pass = { inputs: inputs.map(own), loss };
    const computed = await gradientsOfPass(model, pass, trainables(model), shares[group.rank]!, group);
    return outcomeOf(model, computed, shares[group.rank]!, outputs);
  });
}

function expectClose(actual: readonly number[], expected: readonly number[], what: string): void {
  expect(actual.length, what).toBe(expected.length);
  const worst = Math.max(
    0,
    ...actual.map((value, i) => Math.abs(value - expected[i]!) / Math.max(1, Math.abs(expected[i]!))),
  );
  expect(worst, what).toBeLessThan(1e-5);
}

const sum = (vectors: readonly number[][]): number[] =>
  vectors[0]!.map((_, i) => vectors.reduce((s, v) => s + v[i]!, 0));

/** Ranks together did what one did; all hold the same averages. */
function expectSame(ranks: readonly Outcome[], one: Outcome): void {
  const mean = (vector: readonly number[]): number[] => vector.map((value) => value / one.samples);
  expectClose(mean(sum(ranks.map(({ loss }) => [loss]))), mean([one.loss]), 'loss');
  for (const [i, gradient] of one.gradients.entries()) {
    expectClose(mean(sum(ranks.map(({ gradients }) => gradients[i]!))), mean(gradient), `gradient ${i}`);
  }
  for (const { averages } of ranks) {
    expect(averages).toEqual(ranks[0]!.averages);
    expectClose(averages.flat(), one.averages.flat(), 'moving averages');
  }
}

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

/** Runs passes, the second rank's without samples, and resolves with what they rejected with. */
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

/** Runs ranks with a model each, and expects as many tensors after as before. */
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

const syncLayersIn = (model: tf.LayersModel): number =>
  model.layers.filter((layer) => layer instanceof SyncBatchNormalization).length;

/** A model around a layer that normalizes. */
const layers = (norm: tf.layers.Layer): tf.LayersModel =>
  tf.sequential({ layers: [tf.layers.dense({ units: 3, inputShape: [2] }), norm, tf.layers.dense({ units: 1 })] });

const squares = (outputs: tf.Tensor, labels: tf.Tensor): tf.Scalar => outputs.sub(labels).square().sum<tf.Scalar>();

/** The batch of all ranks together. */
const whole = (all: tf.Tensor[][], step: number): tf.Tensor => tf.concat(all.map((batches) => batches[step]!));

describe('SyncBatchNormalization', () => {
  test('trains under DDP as BatchNormalization does on one rank, whatever the ranks have, also in join', async () => {
    // Batches of each rank: one runs dry after a step, one has none at all.
    const shares = [
      [4, 3],
      [2, 0],
      [1, 2],
    ];
    const reference = layers(tf.layers.batchNormalization());
    const weights = reference.getWeights().map((weight) => weight.clone());
    const xs = shares.map((sizes) => sizes.map((size) => tf.randomNormal([size, 2], 2, 3)));
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
    test.each(SHARES)('gives ranks with %i, %i, ... samples what one with all of them has', async (...shares) => {
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
    });
  });

  test('normalizes another axis than the last', async () => {
    // TensorFlow.js's own does not train with it, so the reference moves the axis.
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
    // TensorFlow.js's own does not train so: the reference has what is missing, at its neutral
    // value.
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

  test('keeps equal to one rank over many steps of SGD', async () => {
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

  test('differentiates with the dropout mask that the forward pass drew', async () => {
    // The same masks in every run of the test, and another one at every call, which a seed of the
    // layer would not give.
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

  test('takes one collective each way for layers that become ready together', async () => {
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
    ['alone in its group', 1, convertSyncBatchNorm],
    ['without such a layer', 2, (model: tf.LayersModel) => model],
  ])('needs no collective for a model %s', async (_what, n, prepare) => {
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

  test('leaves averages alone where no rank has samples', async () => {
    const reference = build('two dimensions');
    const models = [0, 1].map(() => convertSyncBatchNorm(reference));
    const ranks = await passOfMany(models, samples(reference, 0), [0, 0]);
    for (const { loss, gradients, averages } of ranks) {
      expect([loss, ...gradients.flat()].every((element) => element === 0)).toBe(true);
      expect(averages).toEqual(averagesOf(reference));
    }
  });

  describe('leaves no tensors behind', () => {
    test('over a hundred passes', async () => {
      expect(await withoutLeaks(2, (group, model) => errorsOfPasses(100, group, model, sumOf))).toEqual([]);
    });

    test('where the loss throws', async () => {
      const errors = await withoutLeaks(3, (group, model) =>
        errorsOfPasses(1, group, model, (output) => {
          output.square();
          // The rank without samples waits for the others, which give up.
          group.abort(new Error('the loss is wrong'));
          throw new Error('the loss is wrong');
        }),
      );
      expect(errors).toEqual([1, 2, 3].map(() => expect.stringContaining('the loss is wrong') as string));
    });

    test('where a collective fails', async () => {
      const errors = await withoutLeaks(2, (group, model) => {
        if (group.rank === 0) return errorsOfPasses(1, group, model, sumOf);
        group.abort(new Error('the other rank left'));
        return Promise.resolve([]);
      });
      expect(errors).toEqual([expect.stringContaining('the other rank left')]);
    });
  });

  test('is BatchNormalization where it is applied without a group', () => {
    const plain = build('four dimensions');
    const model = convertSyncBatchNorm(plain);
    const batch = samples(plain, 6);
    expectSame([passOfOne(model, batch)], passOfOne(plain, batch));
    const [ours, theirs] = [model, plain].map((one) => valuesOf([one.predict(batch.inputs) as tf.Tensor])[0]!);
    expectClose(ours!, theirs!, 'inference');
  });

  test('survives being written as JSON', async () => {
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

  test('refuses to be inside a wrapper, and to go together with masks', async () => {
    const wrapped = tf.sequential({
      layers: [tf.layers.timeDistributed({ layer: new SyncBatchNormalization(), inputShape: [2, 3] })],
    });
    const masked = tf.sequential({
      layers: [tf.layers.masking({ inputShape: [2, 3] }), new SyncBatchNormalization()],
    });
    await runWorld(2, async (group) => {
      for (const [model, message] of [
        [wrapped, /wraps a SyncBatchNormalization/],
        [masked, /makes a mask/],
      ] as const) {
        const pass = gradientsOfPass(model, { inputs: tf.ones([2, 2, 3]), loss: sumOf }, trainables(model), 1, group);
        await expect(pass).rejects.toThrow(UsageError);
        await expect(pass).rejects.toThrow(message);
      }
      const pair = { inputs: [tf.ones([2, 2, 3]), tf.ones([2, 2, 3])], loss: sumOf };
      await expect(gradientsOfPass(masked, pair, [], 1, group)).rejects.toThrow(/has 1 input\(s\).*gives it 2/);
    });
  });
});

describe('a pass that is a function', () => {
  test.each(Object.keys(MODELS))('is refused on every rank where the model needs all statistics: %s', async (name) => {
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
      expect(String(error)).toMatch(/has SyncBatchNormalization layers.*Pass its inputs/);
    }
  });

  test('trains such a model where there is one rank', async () => {
    await runWorld(1, async (group) => {
      const model = convertSyncBatchNorm(build('two dimensions'));
      const ddp = await DistributedDataParallel.create(model, group);
      const { inputs } = samples(model, 3);
      const loss = (): tf.Scalar => (model.apply(inputs, { training: true }) as tf.Tensor).square().mean().asScalar();
      expect((await ddp.backward(loss, { samples: 3 })).loss).toBeGreaterThan(0);
    });
  });
});

test('a rank without samples makes no tensor where no statistics are exchanged', async () => {
  const model = build('two dimensions');
  const made = vi.spyOn(tf.engine(), 'makeTensor');
  await runWorld(2, (group) => attendPass({ model, parameters: trainables(model) }, group));
  expect(made).not.toHaveBeenCalled();
  made.mockRestore();
});

describe('convertSyncBatchNorm', () => {
  test('replaces every BatchNormalization, keeps names and weights, and leaves the model as it was', () => {
    const model = build('four dimensions');
    for (const weight of model.weights) weight.write(tf.randomUniform(weight.shape as number[], 0.5, 1.5));
    const { inputs } = samples(model, 3);
    const before = valuesOf([model.predict(inputs) as tf.Tensor])[0]!;
    const converted = convertSyncBatchNorm(model);
    expect([syncLayersIn(converted), syncLayersIn(model)]).toEqual([2, 0]);
    expect(converted).toBeInstanceOf(tf.Sequential);
    expect(converted.layers.map(({ name }) => name)).toEqual(model.layers.map(({ name }) => name));
    expect(valuesOf(converted.getWeights())).toEqual(valuesOf(model.getWeights()));
    expectClose(valuesOf([converted.predict(inputs) as tf.Tensor])[0]!, before, 'outputs');
    expect(valuesOf([model.predict(inputs) as tf.Tensor])[0]!).toEqual(before);
  });

  test('goes into nested models, and keeps what is frozen frozen', () => {
    const inner = tf.sequential({ layers: [dense({ units: 3, inputShape: [3] }), batchNormalization()] });
    inner.trainable = false;
    const model = tf.sequential({
      layers: [dense({ units: 3, inputShape: [3], trainable: false }), inner, batchNormalization()],
    });
    const converted = convertSyncBatchNorm(model);
    expect(syncLayersIn(converted.layers[1] as tf.LayersModel)).toBe(1);
    expect(converted.trainableWeights.map(({ originalName }) => originalName)).toEqual(
      model.trainableWeights.map(({ originalName }) => originalName),
    );
    expect(valuesOf(converted.getWeights())).toEqual(valuesOf(model.getWeights()));
  });

  test('says what to do about layers that TensorFlow.js cannot rebuild', () => {
    class Unregistered extends tf.layers.Layer {
      static className = 'Unregistered';
    }
    const model = tf.sequential({ layers: [dense({ units: 3, inputShape: [3] }), new Unregistered()] });
    expect(() => convertSyncBatchNorm(model)).toThrow(UsageError);
    expect(() => convertSyncBatchNorm(model)).toThrow(/register layers of your own/);
  });
});
