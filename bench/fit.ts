/**
 * `bench fit`: compares `distribute(model, group).fit` with TensorFlow.js's own `model.fit`. It
 * runs in Node on TensorFlow.js's CPU backend; ranks are in one process, with memory links.
 */
import * as tf from '@tensorflow/tfjs';
import type { Io } from '../launcher/io.ts';
import { distribute } from '../src/library/distribute/distributedModel.ts';
import { runWorld } from '../src/testing/index.ts';
import { PeergradError } from '../src/util/errors.ts';
import { defineBenchmark } from './command/defineBenchmark.ts';
import { table } from '../tools/report/table.ts';

interface FitBenchOptions {
  json?: true;
}

const OPTIMIZERS: Record<string, () => tf.Optimizer> = {
  sgd: () => tf.train.sgd(0.1),
  momentum: () => tf.train.momentum(0.05, 0.9),
  adagrad: () => tf.train.adagrad(0.1),
  adadelta: () => tf.train.adadelta(0.1),
  adam: () => tf.train.adam(0.005),
  adamax: () => tf.train.adamax(0.005),
  rmsprop: () => tf.train.rmsprop(0.002),
};
/**
 * Models without kinks. At a kink of relu or max-pooling, rounding may decide which side a value is
 * on; the gradient of that sample then differs visibly.
 */
const MODELS: Record<string, () => tf.layers.Layer[]> = {
  mlp: () => [
    tf.layers.flatten({ inputShape: [8, 8, 1] }),
    tf.layers.dense({ ...seeded(1), units: 32, activation: 'tanh' }),
    tf.layers.dense({ ...seeded(2), units: 10, activation: 'softmax' }),
  ],
  cnn: () => [
    tf.layers.conv2d({ ...seeded(3), filters: 8, kernelSize: 3, inputShape: [8, 8, 1], activation: 'tanh' }),
    tf.layers.averagePooling2d({ poolSize: 2 }),
    tf.layers.flatten(),
    tf.layers.dense({ ...seeded(4), units: 10, activation: 'softmax' }),
  ],
};
const RANKS = [2, 4];
const SAMPLES = 500;
/** Samples of a batch of all ranks. The last batch of an epoch has 20 samples. */
const BATCH_SIZE = 32;
const HELD_OUT = 0.2;
const PATIENCE = 3;
const MAX_EPOCHS = 40;
/** A difference beyond this limit is an error. */
const LIMIT = 1e-4;
/** Smaller weights are compared as if they had this size. */
const SMALL = 0.01;

interface FitRow {
  model: string;
  optimizer: string;
  ranks: number;
  /** Largest relative difference of the losses of an epoch's batches. */
  losses: number;
  /** Largest relative difference of a weight after the epoch. */
  weights: number;
}

interface StoppingRow {
  model: string;
  ranks: number;
  /** Epochs until early stopping, with `distribute` and with `model.fit`. */
  epochs: number;
  expected: number;
}

export interface FitResult {
  node: string;
  rows: FitRow[];
  stopping: StoppingRow[];
}

/**
 * @throws (rejects) PeergradError if a difference is above the limit, after the result is printed.
 */
async function benchFit({ json }: FitBenchOptions, io: Io): Promise<void> {
  await tf.setBackend('cpu');
  const data = samples();
  const result: FitResult = { node: process.version, rows: [], stopping: [] };
  for (const model of Object.keys(MODELS)) {
    for (const optimizer of Object.keys(OPTIMIZERS)) {
      io.err(`${model} with ${optimizer} ...`);
      result.rows.push(...(await compareEpoch(model, optimizer, data)));
    }
    result.stopping.push(...(await compareStopping(model, data)));
  }
  tf.dispose([data.x, data.y]);
  io.out(json === undefined ? fitTable(result) : JSON.stringify(result));
  const wrong =
    result.rows.some(({ losses, weights }) => !(losses <= LIMIT && weights <= LIMIT)) ||
    result.stopping.some(({ epochs, expected }) => epochs !== expected);
  if (wrong) throw new PeergradError(`distribute differs from model.fit by more than ${LIMIT}. See the table above.`);
}

type Data = ReturnType<typeof samples>;

/** Pictures whose class is that of the brightest of ten places, with noise. */
function samples() {
  const x = tf.randomNormal([SAMPLES, 8, 8, 1], 0, 1, 'float32', 11);
  const y = tf.tidy(() => {
    const noise = tf.randomNormal([SAMPLES, 10], 0, 0.5, 'float32', 12);
    const classes = x.reshape([SAMPLES, 64]).slice([0, 0], [SAMPLES, 10]).add(noise).argMax(1).toInt();
    return tf.oneHot(classes, 10).toFloat();
  });
  return { x, y };
}

async function compareEpoch(name: string, optimizer: string, { x, y }: Data): Promise<FitRow[]> {
  const train = async (model: tf.LayersModel, fit: tf.LayersModel['fit'], batchSize: number): Promise<Trained> => {
    const losses: number[] = [];
    const callbacks = { onBatchEnd: (_: number, logs?: tf.Logs) => void losses.push(logs!['loss']!) };
    await fit(x, y, { batchSize, shuffle: false, verbose: 0, callbacks });
    return { losses, weights: model.getWeights().flatMap((weight) => Array.from(weight.dataSync())) };
  };
  const expected = await alone(name, optimizer, (model) => train(model, model.fit.bind(model), BATCH_SIZE));
  const rows: FitRow[] = [];
  for (const ranks of RANKS) {
    const all = await onRanks(ranks, name, optimizer, (model, fit) => train(model, fit, BATCH_SIZE / ranks));
    const losses = Math.max(...all.map((own) => largestDifference(own.losses, expected.losses)));
    const weights = Math.max(...all.map((own) => largestDifference(own.weights, expected.weights)));
    rows.push({ model: name, optimizer, ranks, losses, weights });
  }
  return rows;
}

async function compareStopping(name: string, { x, y }: Data): Promise<StoppingRow[]> {
  const train = async (fit: tf.LayersModel['fit'], batchSize: number): Promise<number> => {
    const callbacks = tf.callbacks.earlyStopping({ patience: PATIENCE });
    const args = { epochs: MAX_EPOCHS, shuffle: false, verbose: 0, validationSplit: HELD_OUT } as const;
    return (await fit(x, y, { ...args, batchSize, callbacks })).epoch.length;
  };
  const expected = await alone(name, 'adam', (model) => train(model.fit.bind(model), BATCH_SIZE));
  const rows: StoppingRow[] = [];
  for (const ranks of RANKS) {
    const epochs = await onRanks(ranks, name, 'adam', (_, fit) => train(fit, BATCH_SIZE / ranks));
    rows.push({ model: name, ranks, epochs: Math.max(...epochs), expected });
  }
  return rows;
}

interface Trained {
  losses: number[];
  weights: number[];
}

async function alone<T>(name: string, optimizer: string, main: (model: tf.LayersModel) => Promise<T>): Promise<T> {
  const model = create(name, optimizer);
  try {
    return await main(model);
  } finally {
    model.dispose();
  }
}

/** Runs `main` on every rank, with its model and the distributed `fit`. */
async function onRanks<T>(
  ranks: number,
  name: string,
  optimizer: string,
  main: (model: tf.LayersModel, fit: tf.LayersModel['fit']) => Promise<T>,
): Promise<T[]> {
  return runWorld(ranks, (group) =>
    alone(name, optimizer, async (model) => {
      const distributed = await distribute(model, group);
      return main(model, distributed.fit.bind(distributed));
    }),
  );
}

function create(name: string, optimizer: string): tf.LayersModel {
  const model = tf.sequential({ layers: MODELS[name]!() });
  model.compile({ optimizer: OPTIMIZERS[optimizer]!(), loss: 'categoricalCrossentropy', metrics: ['accuracy'] });
  return model;
}

function seeded(seed: number) {
  return { kernelInitializer: tf.initializers.glorotUniform({ seed }), biasInitializer: 'zeros' as const };
}

function largestDifference(a: readonly number[], b: readonly number[]): number {
  if (a.length !== b.length) return Infinity;
  return Math.max(...a.map((value, i) => Math.abs(value - b[i]!) / Math.max(SMALL, Math.abs(b[i]!))));
}

function fitTable({ rows, stopping }: FitResult): string {
  const cells = rows.map(({ model, optimizer, ranks, losses, weights }) => [
    ...[optimizer, model, String(ranks), losses.toExponential(1), weights.toExponential(1)],
  ]);
  const stops = stopping.map(({ model, ranks, epochs, expected }) => [model, ...[ranks, epochs, expected].map(String)]);
  return [
    table(['optimizer', 'model', 'ranks', 'losses', 'weights'], cells),
    table(['early stopping', 'ranks', 'epochs', 'epochs of model.fit'], stops),
  ].join('\n\n');
}

function section(result: FitResult): string {
  return `## distribute against model.fit

\`npm run -s bench -- fit\`, in Node ${result.node} on TensorFlow.js's CPU backend: an epoch of \`distribute(model, group).fit\` on ${SAMPLES} samples,
compared with \`model.fit\` in one tab. The batch of all ranks has ${BATCH_SIZE} samples, and the last one 20. *Losses* and *weights* are the largest relative
differences of a batch's loss, and of a weight after the epoch (weights below ${SMALL} are compared as if they had this size). The limit
is ${LIMIT}. The models use tanh and average pooling: with relu or max-pooling, rounding decides for a value within 1e-7 of the kink, and then differs
between sums of two and of four parts, as between backends. With \`tf.callbacks.earlyStopping\`, Adam and ${100 * HELD_OUT} % held-out samples, training ends after the same epoch.

${fitTable(result)}
`;
}

export const fit = defineBenchmark({
  name: 'fit',
  description: "compare distribute(model, group).fit with TensorFlow.js's model.fit",
  options: [],
  run: benchFit,
  section,
});
