import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { causalAttention, causalMask } from '../../src/kernels/attention/causalAttention.ts';
import { createRng } from '../../src/util/rng.ts';
import { webgpuBackend } from '../../src/webgpu/backend.ts';
import { commandCounts } from '../../src/webgpu/commands.ts';
import { expectEqualBits, expectEqualsCpu, expectFiniteDifferences, uniform, type Input, type Op } from './compare.ts';

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
const DEPTHS = [4, 20, 64];

test('causalAttention and its gradient equal those of the CPU for 50 shapes', async () => {
  const rng = createRng(1);
  for (let i = 0; i < 50; i++) {
    const [batch, heads, context] = [1 + rng.below(3), 1 + rng.below(3), 2 + rng.below(70)];
    await expectEqualsCpu(attend(heads), [packed(i, batch, context, heads, DEPTHS[rng.below(3)]!)]);
  }
}, 60_000);

test.each([
  [3, 33, 1, 52],
  [1, 97, 1, 128],
  [1, 1024, 1, 4],
])(
  'causalAttention serves %i x %i positions with %i heads of depth %i',
  async (batch, context, heads, depth) => {
    await expectEqualsCpu(attend(heads), [packed(5, batch, context, heads, depth)]);
  },
  60_000,
);

test.each([6, 132])('causalAttention composes ops for a depth of %i', async (depth) => {
  await expectEqualsCpu(attend(2), [packed(5, 1, 9, 2, depth)]);
});

test('causalAttention stays finite with large scores', async () => {
  const { shape, values } = packed(3, 1, 40, 1, 20);
  await expectEqualsCpu(attend(1), [{ shape, values: values.map((value) => 30 * value) }], 1e-3);
});

test('the gradient of causalAttention equals finite differences', async () => {
  await expectFiniteDifferences(attend(2), [packed(2, 2, 37, 2, 4)]);
});

test('causalAttention has equal bits in every run', async () => {
  await expectEqualBits(attend(2), [packed(2, 2, 70, 2, 20)]);
});

test('causalAttention takes one dispatch, and its gradient three', () => {
  const qkv = tf.ones<tf.Rank.R3>([2, 40, 48]);
  const mask = causalMask(40);
  const counts = commandCounts(webgpuBackend()!.device)!;
  const start = counts.dispatches;
  causalAttention(qkv, 2, mask).dispose();
  expect(counts.dispatches - start).toBe(1);
  const dy = tf.ones<tf.Rank.R3>([2, 40, 16]);
  tf.grad((x: tf.Tensor) => causalAttention(x as tf.Tensor3D, 2, mask))(qkv, dy).dispose();
  expect(counts.dispatches - start).toBe(1 + 1 + 3);
  tf.dispose([qkv, mask, dy]);
});
