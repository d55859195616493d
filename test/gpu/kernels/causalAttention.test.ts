import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { causalAttention, causalMask } from '../../../src/gpu/kernels/attention/causalAttention.ts';
import { createRng } from '../../../src/util/rng.ts';
import { expectEqualBits, expectEqualsCpu, expectFiniteDifferences, uniform, type Input, type Op } from './compare.ts';
import { dispatchesOf } from './dispatches.ts';

const attend =
  (heads: number): Op =>
  (qkv) =>
    causalAttention(qkv as tf.Tensor3D, heads, causalMask((qkv as tf.Tensor3D).shape[1]));

/** Queries and keys are large enough that probabilities differ clearly. */
function packed(seed: number, batch: number, context: number, heads: number, depth: number): Input {
  const { shape, values } = uniform(createRng(seed), batch, context, 3 * heads * depth);
  return { shape, values: values.map((value) => 2 * value) };
}

/** Each depth has programs of its own, whose compilation takes most of the time. */
const DEPTHS = [4, 36];

test('causalAttention and its gradient equal those of the CPU backend for 50 shapes', async () => {
  const rng = createRng(1);
  for (let i = 0; i < 50; i++) {
    const [batch, heads, context] = [1 + rng.below(3), 1 + rng.below(3), 2 + rng.below(70)];
    // The larger depth, of two chunks, takes ten times as long on the CPU.
    const depth = DEPTHS[i % 5 === 0 ? 1 : 0]!;
    await expectEqualsCpu(attend(heads), [packed(i, batch, context, heads, depth)]);
  }
});

/** Depths of published models, of one, two and four chunks. The second tile is not full. */
test.each([32, 64, 128])('causalAttention and its gradient support a depth of %i', async (depth) => {
  const input = packed(depth, 1, 37, 2, depth);
  await expectEqualsCpu(attend(2), [input]);
  const qkv = tf.tensor3d(input.values as Float32Array, [1, 37, 6 * depth]);
  expect(dispatchesOf(() => attend(2)(qkv))).toBe(1);
  qkv.dispose();
});

test('causalAttention supports 300 positions', async () => {
  await expectEqualsCpu(attend(1), [packed(5, 1, 300, 1, 4)]);
});

test.each([6, 132])('causalAttention consists of several ops for a depth of %i', (depth) => {
  const dispatches = dispatchesOf(() => causalAttention(tf.ones([1, 9, 3 * depth]), 1, causalMask(9)));
  expect(dispatches).toBeGreaterThan(1);
});

test('causalAttention is finite for large scores', async () => {
  const { shape, values } = packed(3, 1, 40, 1, 36);
  await expectEqualsCpu(attend(1), [{ shape, values: values.map((value) => 30 * value) }], 1e-3);
});

test('the gradient of causalAttention equals finite differences', async () => {
  await expectFiniteDifferences(attend(2), [packed(2, 2, 37, 2, 4)]);
});

test('causalAttention has the same bits in every run', async () => {
  await expectEqualBits(attend(2), [packed(2, 2, 70, 2, 4)]);
});

test('causalAttention takes one dispatch, and its gradient three', () => {
  const mask = causalMask(40);
  const attended = (x: tf.Tensor): tf.Tensor => causalAttention(x as tf.Tensor3D, 2, mask);
  const qkv = tf.ones([2, 40, 24]);
  const dy = tf.ones([2, 40, 8]);
  expect(dispatchesOf(() => attended(qkv))).toBe(1);
  expect(dispatchesOf(() => tf.grad(attended)(qkv, dy))).toBe(1 + 3);
  tf.dispose([qkv, mask, dy]);
});
