import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { columnSum } from '../../../src/gpu/kernels/columnSum.ts';
import { createRng } from '../../../src/util/rng.ts';
import { uniform } from './compare.ts';
import { dispatchesOf } from './dispatches.ts';

async function sumsOf(x: tf.Tensor, from?: number, to?: number): Promise<Float32Array> {
  const sums = columnSum(x, from, to);
  const values = (await sums.data<'float32'>()).slice();
  sums.dispose();
  return values;
}

test('columnSum equals a sum in double precision up to rounding', async () => {
  const rng = createRng(1);
  const before = tf.memory().numTensors;
  for (let run = 0; run < 50; run++) {
    const rows = run % 10 === 0 ? 2000 + rng.below(2000) : 1 + rng.below(300);
    // Other code runs if all are multiples of 4.
    const unit = run % 3 === 0 ? 4 : 1;
    const columns = 1 + rng.below(run % 5 === 0 ? 200 : 20);
    const from = unit * rng.below(columns);
    const to = from + unit + unit * rng.below(columns - from / unit);
    const { values } = uniform(rng, rows, unit * columns);
    const x = tf.tensor(values, [rows, unit * columns]);
    const sums = await sumsOf(x, from, to);
    expect(sums).toHaveLength(to - from);
    for (const [i, sum] of sums.entries()) {
      let [expected, magnitude] = [0, 0];
      for (let row = 0; row < rows; row++) {
        expected += values[row * unit * columns + from + i]!;
        magnitude += Math.abs(values[row * unit * columns + from + i]!);
      }
      expect(Math.abs(sum - expected) / magnitude).toBeLessThan(1e-6);
    }
    x.dispose();
  }
  expect(tf.memory().numTensors).toBe(before);
});

test('columnSum of no rows is 0', async () => {
  const x = tf.zeros([0, 5]);
  expect([...(await sumsOf(x))]).toEqual([0, 0, 0, 0, 0]);
  x.dispose();
});

test('columnSum has the same bits in every run', async () => {
  const { values } = uniform(createRng(2), 5000, 7);
  const x = tf.tensor(values, [50, 100, 7]);
  const first = await sumsOf(x);
  for (let run = 0; run < 20; run++) expect(await sumsOf(x)).toEqual(first);
  x.dispose();
});

test.each([
  [512, 64],
  [128, 65],
])('columnSum takes one dispatch for %i rows of %i columns, and two for more rows', (rows, columns) => {
  expect(dispatchesOf(() => columnSum(tf.ones([rows, columns])))).toBe(1);
  expect(dispatchesOf(() => columnSum(tf.ones([rows + 1, columns])))).toBe(2);
});
