import type * as tf from '@tensorflow/tfjs';
import { test } from 'vitest';
import { embedTokens } from '../../../src/gpu/kernels/embedding.ts';
import { createRng, type Rng } from '../../../src/util/rng.ts';
import {
  expectEqualBits,
  expectEqualsCpu,
  expectFiniteDifferences,
  integers,
  uniform,
  type Input,
  type Op,
} from './compare.ts';

const plain: Op = (tokens, table, positions) => embedTokens(tokens as tf.Tensor2D, table, positions);

/** With a mask that has no gradient. On WebGPU, a cast alone leaves integers in the buffer. */
const masked: Op = (tokens, table, positions, mask) =>
  embedTokens(tokens as tf.Tensor2D, table, positions, mask.cast('float32').mul(0.5));

function sample(rng: Rng, batch: number, context: number, vocabulary: number, width: number): Input[] {
  return [
    integers(rng, vocabulary, batch, context),
    uniform(rng, vocabulary, width),
    uniform(rng, context, width),
    integers(rng, 3, batch, 1, width),
  ];
}

test('embeddings and their gradients equal those of the CPU backend for 50 shapes', async () => {
  const rng = createRng(1);
  const shapes = Array.from({ length: 47 }, () => [
    1 + rng.below(6),
    1 + rng.below(20),
    2 + rng.below(70),
    1 + rng.below(90),
  ]);
  for (const shape of [[1, 1, 2, 1], [9, 250, 3, 64], [3, 5, 7, 300], ...shapes]) {
    const [batch, context, vocabulary, width] = shape as [number, number, number, number];
    const inputs = sample(rng, batch, context, vocabulary, width);
    if (width % 2 === 0) await expectEqualsCpu(masked, inputs);
    else await expectEqualsCpu(plain, inputs.slice(0, 3));
  }
});

test('the gradients of embeddings equal finite differences', async () => {
  await expectFiniteDifferences(masked, sample(createRng(2), 2, 5, 7, 6));
});

test('embeddings have the same bits in every run', async () => {
  await expectEqualBits(masked, sample(createRng(3), 4, 32, 5, 64));
});

test("tokens outside of the table have the embedding 0, and add nothing to the table's gradient", async () => {
  const inputs = sample(createRng(4), 1, 4, 5, 6);
  await expectEqualsCpu(
    plain,
    inputs.slice(0, 3).with(0, { shape: [1, 4], values: Int32Array.of(-1, 5, 2 ** 31 - 1, 2) }),
  );
});
