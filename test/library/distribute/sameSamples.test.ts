/** Ranks that should pass the same samples notice that they do not, before the first step. */
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import type { DistributedModel } from '../../../src/library/distribute/distributedModel.ts';
import { sketchOfTensor, sketchDifference } from '../../../src/library/distribute/sketches.ts';
import { MismatchError } from '../../../src/util/errors.ts';
import { seededPermutation } from '../../../src/util/rng.ts';
import { errorsOf } from './errorsOf.ts';
import { compiled, distributed, SAMPLES, useSamples } from './models.ts';

let x: tf.Tensor;
let y: tf.Tensor;
useSamples((samples) => ({ x, y } = samples));

const mlp = () => compiled('mlp');
const shuffled = (seed: number): tf.Tensor1D => tf.tensor1d(Int32Array.from(seededPermutation(SAMPLES, seed)), 'int32');
const CHANGED = 1;

/** Calls `use` with changed samples on rank 1, and with the samples on other ranks. */
async function withSamples<T>(
  rank: number,
  change: (x: tf.Tensor, y: tf.Tensor) => [tf.Tensor, tf.Tensor],
  use: (x: tf.Tensor, y: tf.Tensor) => Promise<T>,
): Promise<T> {
  const [someX, someY] = rank === CHANGED ? tf.tidy(() => change(x, y)) : [x.clone(), y.clone()];
  return use(someX, someY).finally(() => tf.dispose([someX, someY]));
}

const CHANGES: [string, RegExp, (x: tf.Tensor, y: tf.Tensor) => [tf.Tensor, tf.Tensor]][] = [
  [
    'samples that it has shuffled by itself',
    /x .*the same samples in another order on rank 1/,
    (a, b) => [a.gather(shuffled(1)), b.gather(shuffled(1))],
  ],
  ['reversed samples', /x .*the same samples in another order on rank 1/, (a, b) => [a.reverse(0), b.reverse(0)]],
  [
    'other targets for the same inputs',
    /y .*the same samples in another order on rank 1/,
    (a, b) => [a.clone(), b.gather(shuffled(2))],
  ],
  [
    'one other sample',
    /x .*other samples on rank 1/,
    (a, b) => [a.add(tf.oneHot([3], SAMPLES).transpose()), b.clone()],
  ],
  [
    'two samples in exchanged places',
    /x .*the same samples in another order on rank 1/,
    (a, b) => [tf.concat([a.slice(1, 1), a.slice(0, 1), a.slice(2)]), b.clone()],
  ],
];

const HINT =
  /Pass the same samples in the same order on every rank: .* `sharded: true` if every rank has its own samples/;

async function expectMismatch(main: (trainer: DistributedModel, rank: number) => Promise<unknown>, message: RegExp) {
  let steps = 0;
  const errors = await errorsOf(mlp, (trainer, { rank }) => {
    trainer.model.optimizer.applyGradients = () => void steps++;
    return main(trainer, rank);
  });
  expect(
    errors.map(({ error }) => [error instanceof MismatchError, message.test(error.message), HINT.test(error.message)]),
  ).toEqual(errors.map(() => [true, true, true]));
  expect(steps).toBe(0);
}

/** A dataset of twelve batches in the order of a seed. */
const generated = (seed: number): tf.data.Dataset<tf.TensorContainer> =>
  tf.data.generator(function* () {
    for (const i of seededPermutation(12, seed)) yield { xs: x.slice(i * 3, 3), ys: y.slice(i * 3, 3) };
  });

describe('all ranks reject before the first step if rank 1 passes', () => {
  test.each(CHANGES)('%s, in fit', async (_, message, change) => {
    await expectMismatch((trainer, rank) => withSamples(rank, change, (a, b) => trainer.fit(a, b)), message);
  });

  test.each(CHANGES)('%s, in evaluate and for validation', async (_, message, change) => {
    await expectMismatch((trainer, rank) => withSamples(rank, change, (a, b) => trainer.evaluate(a, b)), message);
    await expectMismatch(
      (trainer, rank) => withSamples(rank, change, (a, b) => trainer.fit(x, y, { validationData: [a, b] })),
      message,
    );
  });

  test('a different sampleWeight', async () => {
    await expectMismatch(async (trainer, rank) => {
      const sampleWeight = tf.tensor1d(Array.from({ length: SAMPLES }, (_, i) => i + (rank === CHANGED ? 1 : 0)));
      await trainer.fit(x, y, { sampleWeight }).finally(() => sampleWeight.dispose());
    }, /sampleWeight .*other samples on rank 1/);
  });

  test('a dataset in a different order', async () => {
    await expectMismatch(
      (trainer, rank) => trainer.fitDataset(generated(rank), { epochs: 1 }),
      /fitDataset: xs of element 0 of the dataset has other samples on rank 1 than on rank 0/,
    );
    await expectMismatch(
      (trainer, rank) => trainer.evaluateDataset(generated(rank)),
      /evaluateDataset: xs of element 0 of the dataset has other samples on rank 1 than on rank 0/,
    );
  });
});

test('ranks train if they pass samples of their own, or the same samples with different rounding', async () => {
  const noise = tf.randomNormal(x.shape, 0, 1e-7);
  const trained = await distributed(2, mlp, async (trainer, { rank }) => {
    const [someX, someY] = tf.tidy(() => [x.gather(shuffled(rank)), y.gather(shuffled(rank))]);
    await trainer.fit(someX, someY, { sharded: true });
    const rounded = rank === CHANGED ? x.add(noise) : x.clone();
    await trainer.fit(rounded, y);
    tf.dispose([someX, someY, rounded]);
  });
  expect(trained[0]!.weights).toEqual(trained[1]!.weights);
  noise.dispose();
});

test('a sketch reads large tensors in parts, and distinguishes missing values from zeros', async () => {
  const shape: [number, number] = [3 * 2 ** 20, 2];
  const values = new Float32Array(shape[0] * shape[1]);
  for (let i = 0; i < values.length; i++) values[i] = (i % 1009) / 1009;
  const swapped = values.slice();
  swapped.set(values.subarray(0, 2), 1000);
  swapped.set(values.subarray(1000, 1002), 0);
  const [rows, others] = [tf.tensor2d(values, shape), tf.tensor2d(swapped, shape)];
  expect(sketchDifference(await sketchOfTensor(rows), await sketchOfTensor(others))).toBe('order');
  const [missing, zeros] = [tf.tensor1d([1, NaN, 0]), tf.tensor1d([1, 0, 0])];
  expect(sketchDifference(await sketchOfTensor(missing), await sketchOfTensor(zeros))).toBe('values');
  tf.dispose([rows, others, missing, zeros]);
});

test.each([
  ['a column of large values', [1.7e12, 3e9, -2e12, 5e11]],
  ['missing values', [NaN, 1, NaN, 2]],
  ['infinite values', [Infinity, 1, -Infinity, 2]],
])('a difference in one column is not hidden by another column: %s', async (_, large) => {
  const tableOf = (small: number[]): tf.Tensor2D =>
    tf.stack([tf.tensor1d(large), tf.tensor1d(small)], 1) as tf.Tensor2D;
  const tables = [[0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.401], [0.1, 0.3, 0.2, 0.4], [0.1, 0.2, 0.3, 0.4 + 1e-8]]; // prettier-ignore
  const all = tf.tidy(() => tables.map(tableOf));
  const [same, ...others] = await Promise.all(all.map(sketchOfTensor));
  expect(others.map((other) => sketchDifference(same!, other))).toEqual(['values', 'order', null]);
  tf.dispose(all);
});

test('a sketch distinguishes doubled values from the original ones, but not rounding errors from zeros', async () => {
  const all = [[1, 0], [2, 0], [1, 1e-9]].map((row) => tf.tensor2d([row, row.map((value) => 3 * value)])); // prettier-ignore
  const [one, two, rounded] = await Promise.all(all.map(sketchOfTensor));
  expect([sketchDifference(one!, two!), sketchDifference(one!, rounded!)]).toEqual(['values', null]);
  tf.dispose(all);
});
