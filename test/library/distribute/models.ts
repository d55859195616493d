/** Tiny models and data, and comparison with TensorFlow.js's own `fit`. */
import * as tf from '@tensorflow/tfjs';
import { afterEach, beforeEach, expect } from 'vitest';
import type { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import { distribute, type DistributedModel } from '../../../src/library/distribute/distributedModel.ts';
import { runWorld } from '../../../src/testing/index.ts';

export const SAMPLES = 44;

const seeded = (seed: number) => ({
  kernelInitializer: tf.initializers.glorotUniform({ seed }),
  biasInitializer: tf.initializers.randomUniform({ seed, minval: -0.1, maxval: 0.1 }),
});

export const MODELS = {
  mlp: () =>
    tf.sequential({
      layers: [
        tf.layers.dense({ ...seeded(1), units: 6, inputShape: [4], activation: 'tanh' }),
        tf.layers.dense({ ...seeded(2), units: 3, activation: 'softmax' }),
      ],
    }),
  cnn: () =>
    tf.sequential({
      layers: [
        tf.layers.conv2d({ ...seeded(3), filters: 3, kernelSize: 3, inputShape: [6, 6, 1], activation: 'tanh' }),
        tf.layers.averagePooling2d({ poolSize: 2 }),
        tf.layers.flatten(),
        tf.layers.dense({ ...seeded(4), units: 3, activation: 'softmax' }),
      ],
    }),
} as const;

export type ModelName = keyof typeof MODELS;

export const OPTIMIZERS: Record<string, () => tf.Optimizer> = {
  sgd: () => tf.train.sgd(0.1),
  momentum: () => tf.train.momentum(0.05, 0.9),
  adagrad: () => tf.train.adagrad(0.1),
  adadelta: () => tf.train.adadelta(0.1),
  adam: () => tf.train.adam(0.01),
  adamax: () => tf.train.adamax(0.01),
  rmsprop: () => tf.train.rmsprop(0.01),
};

/** Samples of three classes, one-hot: the largest of the first three inputs, with noise. */
export function samplesOf(model: ModelName, count = SAMPLES): { x: tf.Tensor; y: tf.Tensor } {
  const shape = model === 'mlp' ? [count, 4] : [count, 6, 6, 1];
  const x = tf.randomNormal(shape, 0, 1, 'float32', 7);
  const y = tf.tidy(() => {
    const noise = tf.randomNormal([count, 3], 0, 1, 'float32', 3);
    const classes = x.reshape([count, -1]).slice([0, 0], [count, 3]).add(noise).argMax(1).toInt();
    return tf.oneHot(classes, 3).toFloat();
  });
  return { x, y };
}

/**
 * Runs the tests of a file on the CPU. Passes new samples to `receive` before each test, and checks
 * after it that no tensor is left.
 */
export function useSamples(receive: (samples: ReturnType<typeof samplesOf>) => void): void {
  let samples: ReturnType<typeof samplesOf>;
  let before: tf.MemoryInfo;
  beforeEach(() => {
    before = tf.memory();
    samples = samplesOf('mlp');
    receive(samples);
  });
  afterEach(() => {
    tf.dispose([samples.x, samples.y]);
    const { numTensors, numBytes } = before;
    expect(tf.memory()).toMatchObject({ numTensors, numBytes });
  });
}

export function weightsOf(model: tf.LayersModel): number[] {
  return model.getWeights().flatMap((weight) => Array.from(weight.dataSync()));
}

/**
 * Largest difference of two lists. Values of at least 0.01 are compared relative to their size, and
 * smaller values relative to 0.01.
 */
export function largestDifference(a: readonly number[], b: readonly number[]): number {
  if (a.length !== b.length) return Infinity;
  return Math.max(0, ...a.map((value, i) => Math.abs(value - b[i]!) / Math.max(0.01, Math.abs(b[i]!))));
}

/** Largest difference of all values in two histories; Infinity if they have other names. */
export function historyDifference(mine: tf.History, theirs: tf.History): number {
  const names = Object.keys(theirs.history).toSorted();
  if (JSON.stringify(Object.keys(mine.history).toSorted()) !== JSON.stringify(names)) return Infinity;
  return Math.max(
    ...names.map((name) => largestDifference(mine.history[name] as number[], theirs.history[name] as number[])),
  );
}

export interface Trained {
  history: tf.History;
  weights: number[];
}

/** Runs `main` on every rank, with a new model that is compiled as the caller wants. */
export async function distributed<T>(
  ranks: number,
  create: () => tf.LayersModel,
  main: (distributed: DistributedModel, group: ProcessGroup) => Promise<T>,
): Promise<(Trained & { result: T })[]> {
  return runWorld(ranks, async (group) => {
    const model = create();
    const trainer = await distribute(model, group);
    try {
      const result = await main(trainer, group);
      return { result, history: result instanceof tf.History ? result : new tf.History(), weights: weightsOf(model) };
    } finally {
      trainer.dispose();
      model.optimizer.dispose();
      model.dispose();
    }
  });
}

/** TensorFlow.js's own training of a model in one tab. */
export async function alone(
  create: () => tf.LayersModel,
  main: (model: tf.LayersModel) => Promise<tf.History>,
): Promise<Trained> {
  const model = create();
  const history = await main(model);
  const weights = weightsOf(model);
  model.optimizer.dispose();
  model.dispose();
  return { history, weights };
}

export function compiled(
  name: ModelName,
  {
    optimizer = () => tf.train.sgd(0.1),
    metrics = ['accuracy'],
  }: { optimizer?: () => tf.Optimizer; metrics?: string[] } = {},
): tf.LayersModel {
  const model = MODELS[name]();
  model.compile({ optimizer: optimizer(), loss: 'categoricalCrossentropy', metrics });
  return model;
}

/** Two inputs, two outputs, and regularizers. */
export function twoByTwo(): tf.LayersModel {
  const first = tf.input({ shape: [4], name: `first${tf.util.now()}` });
  const second = tf.input({ shape: [2], name: `second${tf.util.now()}` });
  const both = tf.layers.concatenate().apply([first, second]) as tf.SymbolicTensor;
  const hidden = tf.layers
    .dense({ ...seeded(5), units: 5, activation: 'tanh', kernelRegularizer: tf.regularizers.l2({ l2: 0.01 }) })
    .apply(both) as tf.SymbolicTensor;
  const classes = tf.layers.dense({ ...seeded(6), units: 3, activation: 'softmax', name: 'classes' });
  const value = tf.layers.dense({ ...seeded(7), units: 1, name: 'value' });
  const outputs = [classes, value].map((layer) => layer.apply(hidden) as tf.SymbolicTensor);
  const model = tf.model({ inputs: [first, second], outputs });
  model.compile({
    optimizer: tf.train.adam(0.01),
    loss: ['categoricalCrossentropy', 'meanSquaredError'],
    metrics: { classes: 'accuracy', value: 'mae' },
  });
  return model;
}

/**
 * Expects equal histories and weights on all ranks, which differ from the expected ones by less
 * than 1e-4.
 */
export function expectEqual(all: readonly Trained[], expected: Trained): void {
  for (const { history, weights } of all) {
    expect(historyDifference(history, expected.history)).toBeLessThan(1e-4);
    expect(largestDifference(weights, expected.weights)).toBeLessThan(1e-4);
    expect(weights).toEqual(all[0]!.weights);
    expect(history.history).toEqual(all[0]!.history.history);
    expect(history.epoch).toEqual(expected.history.epoch);
  }
}
