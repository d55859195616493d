/** Models with batch normalization, and passes through them by one rank and by several. */
import * as tf from '@tensorflow/tfjs';
import { expect } from 'vitest';
import { gradientsOf, type ComputedGradients, type Variable } from '../../../src/parallel/backward/flatten.ts';
import { gradientsOfPass } from '../../../src/parallel/backward/pass.ts';
import { runWorld } from '../../../src/testing/index.ts';

const { batchNormalization, concatenate, conv2d, dense, flatten } = tf.layers;
export const add = (...inputs: tf.SymbolicTensor[]): tf.SymbolicTensor =>
  tf.layers.add().apply(inputs) as tf.SymbolicTensor;
export const through = (layer: tf.layers.Layer, input: tf.SymbolicTensor | tf.SymbolicTensor[]): tf.SymbolicTensor =>
  layer.apply(input) as tf.SymbolicTensor;

/** Models with BatchNormalization, which a single rank trains. */
export const MODELS: Record<string, () => tf.LayersModel> = {
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
    // The trunk bypasses both cuts, one branch the second.
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
  'several inputs, and outputs from before and after the cuts': () => {
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
 * Sets the weights of a model to the same values in every run, none of which could hide a mistake.
 */
export function seeded(model: tf.LayersModel): tf.LayersModel {
  for (const [i, weight] of model.trainableWeights.entries()) {
    weight.write(tf.randomNormal(weight.shape as number[], 0.3, 0.6, 'float32', i + 1));
  }
  return model;
}

export const build = (name: string): tf.LayersModel => seeded(MODELS[name]!());

export const SHARES = [
  [4, 4],
  [5, 0, 3],
  [2, 1, 2, 3],
  [0, 7],
];

/** Result of one pass, as numbers. */
export interface Outcome {
  samples: number;
  /** Sum over samples, as for gradients. */
  loss: number;
  outputs: number[];
  gradients: number[][];
  averages: number[][];
}

export const trainables = (model: tf.LayersModel): Variable[] =>
  model.trainableWeights.map((weight) => weight.read() as Variable);
export const valuesOf = (tensors: readonly tf.Tensor[]): number[][] =>
  tensors.map((tensor) => Array.from(tensor.dataSync()));
export const averagesOf = (model: tf.LayersModel): number[][] =>
  valuesOf(model.nonTrainableWeights.map((weight) => weight.read()));

/**
 * The mean over samples of the squared distance of all outputs from targets that differ by sample
 * and output.
 */
export function lossOf(targets: tf.Tensor, outputs: readonly tf.Tensor[]): tf.Scalar {
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

/**
 * Inputs and targets of `count` samples. Inputs have a mean other than 0, so that statistics
 * matter.
 */
export function samples(model: tf.LayersModel, count: number, seed = 1): { inputs: tf.Tensor[]; targets: tf.Tensor } {
  const inputs = model.inputs.map(({ shape }, i) =>
    tf.randomNormal([count, ...shape.slice(1).map((size) => size!)], 3, 2, 'float32', seed + i),
  );
  return { inputs, targets: tf.randomNormal([count, 1], 0, 1, 'float32', seed + 10) };
}

/** A pass of one rank with the whole batch by TensorFlow.js. */
export function passOfOne(model: tf.LayersModel, { inputs, targets }: ReturnType<typeof samples>): Outcome {
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

export function outcomeOf(
  model: tf.LayersModel,
  { value, gradients }: ComputedGradients,
  count: number,
  outputs: number[] = [],
): Outcome {
  const [loss] = value.dataSync();
  return { samples: count, loss: loss!, outputs, gradients: valuesOf(gradients), averages: averagesOf(model) };
}

/** A rank's samples of the whole batch. */
export function shareOf(tensor: tf.Tensor, shares: readonly number[], rank: number): tf.Tensor {
  const start = shares.slice(0, rank).reduce((sum, share) => sum + share, 0);
  const [, ...rest] = tensor.shape;
  return tensor.slice([start, ...rest.map(() => 0)], [shares[rank]!, ...rest]);
}

/** A pass of as many ranks as there are shares; returns the results of all ranks. */
export function passOfMany(
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

export function expectClose(actual: readonly number[], expected: readonly number[], what: string): void {
  expect(actual.length, what).toBe(expected.length);
  const worst = Math.max(
    0,
    ...actual.map((value, i) => Math.abs(value - expected[i]!) / Math.max(1, Math.abs(expected[i]!))),
  );
  expect(worst, what).toBeLessThan(1e-5);
}

export const sum = (vectors: readonly number[][]): number[] =>
  vectors[0]!.map((_, i) => vectors.reduce((s, v) => s + v[i]!, 0));

/** Expects the combined result of `ranks` to be that of one rank, and equal averages on all. */
export function expectSame(ranks: readonly Outcome[], one: Outcome): void {
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
