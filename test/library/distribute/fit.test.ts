import * as tf from '@tensorflow/tfjs';
import { describe, expect, test, vi } from 'vitest';
import { convertSyncBatchNorm } from '../../../src/parallel/backward/syncBatchNorm.ts';
import type { DistributedFitArgs } from '../../../src/library/distribute/arguments.ts';
import {
  alone,
  compiled,
  distributed,
  expectEqual,
  largestDifference,
  MODELS,
  samplesOf,
  twoByTwo,
  useSamples,
} from './models.ts';

let x: tf.Tensor;
let y: tf.Tensor;
useSamples((samples) => ({ x, y } = samples));

const mlp = () => compiled('mlp', { optimizer: () => tf.train.adam(0.02), metrics: ['accuracy', 'mse'] });

const held = () => samplesOf('mlp', 13);

const shuffled = (ranks: number, seed: number) =>
  distributed(ranks, mlp, async (model, { rank }) => {
    const args = { batchSize: 12 / ranks, seed: rank === 0 ? seed : 99 + rank };
    const first = await model.fit(x, y, { ...args, epochs: 2 });
    await model.fit(x, y, args);
    return first;
  });

const withDropout = () => {
  const model = tf.sequential({
    layers: [
      tf.layers.dense({ units: 5, inputShape: [4] }),
      tf.layers.batchNormalization({}),
      tf.layers.dropout({ rate: 0.3 }),
      tf.layers.dense({ units: 3, activation: 'softmax' }),
    ],
  });
  model.compile({ optimizer: 'adam', loss: 'categoricalCrossentropy' });
  return model;
};

function withGeneratedNames(): tf.LayersModel {
  const input = tf.input({ shape: [4] });
  const outputs = [1, 2].map((seed) => {
    const kernelInitializer = tf.initializers.glorotUniform({ seed });
    return tf.layers.dense({ units: 3, kernelInitializer }).apply(input) as tf.SymbolicTensor;
  });
  const model = tf.model({ inputs: input, outputs });
  model.compile({ optimizer: tf.train.sgd(0.1), loss: 'meanSquaredError' });
  return model;
}

const dense = (units: number, seed: number) => ({
  units,
  kernelInitializer: tf.initializers.glorotUniform({ seed }),
});

/** Batch normalization, compiled after `convert`. */
function normalized(convert = (model: tf.LayersModel) => model): tf.LayersModel {
  const model = convert(
    tf.sequential({
      layers: [
        tf.layers.dense({ ...dense(5, 1), inputShape: [4] }),
        tf.layers.batchNormalization({ momentum: 0.5 }),
        tf.layers.dense({ ...dense(3, 2), activation: 'softmax' }),
      ],
    }),
  );
  model.compile({ optimizer: tf.train.sgd(0.1), loss: 'categoricalCrossentropy', metrics: ['accuracy'] });
  return model;
}

function synchronized(): tf.LayersModel {
  return normalized((model) => {
    const converted = convertSyncBatchNorm(model);
    model.dispose();
    return converted;
  });
}

describe('fit equals model.fit', () => {
  const cases: [string, () => Omit<DistributedFitArgs, 'signal'>][] = [
    ['over epochs whose last batch is short', () => ({ epochs: 3 })],
    ['with validationSplit', () => ({ epochs: 2, validationSplit: 0.3 })],
    ['with classWeight', () => ({ epochs: 2, classWeight: { 0: 0.5, 1: 2, 2: 1 } })],
    ['with classWeight and validationSplit', () => ({ classWeight: { 0: 3, 1: 2, 2: 1 }, validationSplit: 0.2 })],
    ['from a later epoch on', () => ({ initialEpoch: 2, epochs: 4 })],
  ];

  test.each(cases)('%s', async (_, argsOf) => {
    const args = { ...argsOf(), shuffle: false };
    const expected = await alone(mlp, (model) => model.fit(x, y, { ...args, batchSize: 18, verbose: 0 }));
    expectEqual(await distributed(3, mlp, (model) => model.fit(x, y, { ...args, batchSize: 6 })), expected);
  });

  test('with validationData', async () => {
    const { x: heldX, y: heldY } = held();
    const args = { epochs: 2, shuffle: false, validationData: [heldX, heldY] as [tf.Tensor, tf.Tensor] };
    const expected = await alone(mlp, (model) => model.fit(x, y, { ...args, batchSize: 16, verbose: 0 }));
    expectEqual(await distributed(2, mlp, (model) => model.fit(x, y, { ...args, batchSize: 8 })), expected);
    tf.dispose([heldX, heldY]);
  });

  test('with a last batch in which some ranks have no samples', async () => {
    const { x: fewX, y: fewY } = samplesOf('mlp', 17);
    const expected = await alone(mlp, (model) => model.fit(fewX, fewY, { batchSize: 16, shuffle: false, verbose: 0 }));
    expectEqual(
      await distributed(4, mlp, (model) => model.fit(fewX, fewY, { batchSize: 4, shuffle: false })),
      expected,
    );
    tf.dispose([fewX, fewY]);
  });

  test('with two inputs, two outputs, penalties, and targets by name', async () => {
    const second = tf.randomNormal([x.shape[0], 2], 0, 1, 'float32', 9);
    const value = tf.tidy(() => x.sum(1));
    const args = { epochs: 2, shuffle: false, validationSplit: 0.25 };
    const expected = await alone(twoByTwo, (model) =>
      model.fit([x, second], [y, value], { ...args, batchSize: 12, verbose: 0 }),
    );
    expectEqual(
      await distributed(2, twoByTwo, (model) =>
        model.fit([x, second], { classes: y, value }, { ...args, batchSize: 6 }),
      ),
      expected,
    );
    tf.dispose([second, value]);
  });

  test("over two calls; the second one continues with the optimizer's state", async () => {
    const args = { shuffle: false, verbose: 0 as const };
    const expected = await alone(mlp, async (model) => {
      await model.fit(x, y, { ...args, batchSize: 16 });
      return model.fit(x, y, { ...args, batchSize: 16 });
    });
    const all = await distributed(2, mlp, async (model) => {
      await model.fit(x, y, { ...args, batchSize: 8 });
      return model.fit(x, y, { ...args, batchSize: 8 });
    });
    expectEqual(all, expected);
  });
});

describe('fit', () => {
  test('multiplies losses by sampleWeight, as model.fit does by classWeight', async () => {
    const classWeight = { 0: 0.5, 1: 2, 2: 1 };
    const sampleWeight = tf.tidy(() => tf.gather(tf.tensor1d([0.5, 2, 1]), y.argMax(1).toInt()));
    const expected = await alone(mlp, (model) =>
      model.fit(x, y, { classWeight, batchSize: 16, shuffle: false, verbose: 0 }),
    );
    expectEqual(
      await distributed(2, mlp, (model) => model.fit(x, y, { sampleWeight, batchSize: 8, shuffle: false })),
      expected,
    );
    sampleWeight.dispose();
  });

  test("shuffles by rank 0's seed, differently in every epoch and call, but the same for any number of ranks", async () => {
    const one = (await shuffled(1, 5))[0]!;
    expectEqual(await shuffled(3, 5), one);
    const other = (await shuffled(2, 6))[0]!;
    expect(largestDifference(other.weights, one.weights)).toBeGreaterThan(1e-3);
  });

  test('trains on the samples of all ranks if data are sharded, even if ranks have different numbers of samples', async () => {
    // Rank 0 has samples 0 to 9, rank 1 samples 10 to 33, rank 2 none. Steps of 5 samples per rank:
    // after two steps only rank 1 has samples.
    const parts = [
      [0, 10],
      [10, 24],
      [0, 0],
    ] as const;
    const order = [...range(0, 5), ...range(10, 15), ...range(5, 10), ...range(15, 20)];
    const all = await distributed(3, mlp, async (model, { rank }) => {
      const [start, count] = parts[rank]!;
      const [ownX, ownY] = [x.slice([start, 0], [count, 4]), y.slice([start, 0], [count, 3])];
      const history = await model.fit(ownX, ownY, { sharded: true, batchSize: 5, shuffle: false });
      tf.dispose([ownX, ownY]);
      return history;
    });
    const rest = range(20, 34);
    const expected = await alone(mlp, async (model) => {
      let seen = 0;
      const totals: Record<string, number> = {};
      for (const [indices, batchSize] of [
        [order, 10],
        [rest, 5],
      ] as const) {
        const rows = tf.tensor1d(indices, 'int32');
        const [someX, someY] = [x.gather(rows), y.gather(rows)];
        const { history } = await model.fit(someX, someY, { batchSize, shuffle: false, verbose: 0 });
        seen += indices.length;
        for (const [name, [value]] of Object.entries(history)) {
          totals[name] = (totals[name] ?? 0) + (value as number) * indices.length;
        }
        tf.dispose([rows, someX, someY]);
      }
      const history = new tf.History();
      history.epoch = [0];
      history.history = Object.fromEntries(Object.entries(totals).map(([name, total]) => [name, [total / seen]]));
      return history;
    });
    expectEqual(all, expected);
  });

  test('accepts models whose automatic names differ between ranks', async () => {
    const all = await distributed(2, withGeneratedNames, (model) => model.fit(x, [y, y], { batchSize: 8 }));
    const [names, others] = all.map(({ history }) => Object.keys(history.history));
    expect(names).not.toEqual(others);
    expect(all[1]!.weights).toEqual(all[0]!.weights);
  });

  test('with SyncBatchNormalization equals model.fit with BatchNormalization on all samples', async () => {
    // The last batch has 2 samples for 3 ranks.
    const args = { epochs: 2, shuffle: false };
    const expected = await alone(normalized, (model) => model.fit(x, y, { ...args, batchSize: 42, verbose: 0 }));
    expectEqual(await distributed(3, synchronized, (model) => model.fit(x, y, { ...args, batchSize: 14 })), expected);
  });

  test('uses batches of 32 samples per rank by default', async () => {
    const expected = await alone(mlp, (model) => model.fit(x, y, { batchSize: 64, shuffle: false, verbose: 0 }));
    expectEqual(await distributed(2, mlp, (model) => model.fit(x, y, { shuffle: false })), expected);
  });

  test('trains models with dropout and batch normalization to equal weights', async () => {
    const all = await distributed(2, withDropout, (model) =>
      model.fit(x, y, { epochs: 2, batchSize: 8, validationSplit: 0.2 }),
    );
    expect(all[1]!.weights).toEqual(all[0]!.weights);
    expect(all[1]!.history.history).toEqual(all[0]!.history.history);
  });
});

const LOSSES: [string, number, (target: tf.Tensor, output: tf.Tensor) => tf.Tensor][] = [
  ['a sum is reported', 2, (target, output) => tf.squaredDifference(target, output).sum()],
  ['a root of a mean is reported', 2, (target, output) => tf.losses.meanSquaredError(target, output).sqrt()],
  [
    'a function of pairs is reported',
    2,
    (target, output) => tf.squaredDifference(target, output).reshape([2, -1]).mean(1).prod(),
  ],
  ['a mean is not reported', 0, (target, output) => tf.losses.huberLoss(target, output)],
  ['a loss of each sample is not reported', 0, (target, output) => tf.metrics.meanAbsoluteError(target, output)],
];

describe('before it trains, each rank checks a custom loss:', () => {
  test.each(LOSSES)('%s', async (_, reports, loss) => {
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => {});
    const create = (): tf.LayersModel => {
      const model = MODELS.mlp();
      model.compile({ optimizer: tf.train.sgd(0.01), loss });
      return model;
    };
    await distributed(2, create, (model) => model.fit(x, y, { batchSize: 22, shuffle: false }));
    const calls = warn.mock.calls.map(([text]) => String(text));
    warn.mockRestore();
    expect(calls).toHaveLength(reports);
    for (const text of calls) expect(text).toMatch(/^The loss of .* is not a mean over samples\..*Return losses of/);
  });
});

function range(start: number, end: number): number[] {
  return Array.from({ length: end - start }, (_, i) => start + i);
}

test('arguments without any effect are accepted, as by model.fit', async () => {
  for (const args of [
    { epochs: 0 },
    { epochs: 2, initialEpoch: 2 },
    { validationData: [] as never, validationSplit: 0.2 },
  ]) {
    const expected = await alone(
      () => compiled('mlp'),
      (model) => model.fit(x, y, { ...args, batchSize: 8, shuffle: false, verbose: 0 }),
    );
    expectEqual(
      await distributed(
        2,
        () => compiled('mlp'),
        (trainer) => trainer.fit(x, y, { ...args, batchSize: 4, shuffle: false }),
      ),
      expected,
    );
  }
});
