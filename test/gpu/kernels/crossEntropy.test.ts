import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { crossEntropySum } from '../../../src/gpu/kernels/crossEntropy.ts';
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
import { ADAPTER_KINDS, useAdapter } from './adapters.ts';

const loss: Op = (logits, labels, weights) =>
  crossEntropySum(logits as tf.Tensor2D, labels as tf.Tensor1D, weights as tf.Tensor1D);

/** Logits up to 30, because softmax of logits near 0 hides errors. */
function sample(rng: Rng, rows: number, classes: number): Input[] {
  const { shape, values } = uniform(rng, rows, classes);
  const logits = { shape, values: (values as Float32Array).map((value) => 30 * value) };
  const weights = uniform(rng, rows);
  return [logits, integers(rng, classes, rows), { ...weights, values: weights.values.map(Math.abs) }];
}

describe.each(ADAPTER_KINDS)('on a %s adapter', (kind) => {
  useAdapter(kind);

  test('the loss and its gradients equal those of the CPU backend for 50 shapes', async () => {
    const rng = createRng(1);
    const shapes = Array.from({ length: 45 }, () => [1 + rng.below(70), 2 + rng.below(300)] as const);
    for (const [rows, classes] of [[1, 2], [32, 10], [256, 68], [3, 9001], [70_000, 3], ...shapes] as const) {
      await expectEqualsCpu(loss, sample(rng, rows, classes));
    }
  });

  test('the gradients of the loss equal finite differences', async () => {
    await expectFiniteDifferences(loss, sample(createRng(2), 6, 12));
  });

  test('the loss has the same bits in every run', async () => {
    await expectEqualBits(loss, sample(createRng(3), 100, 68));
  });

  test('labels that are not classes add nothing to the loss and its gradient', async () => {
    const inputs = sample(createRng(4), 6, 12);
    await expectEqualsCpu(
      loss,
      inputs.with(1, { shape: [6], values: Int32Array.of(-1, 3, 12, 2 ** 31 - 1, -(2 ** 31), 0) }),
    );
  });

  test('large logits do not overflow, and rows with weight 0 add nothing', async () => {
    const logits = { shape: [3, 5], values: Float32Array.from({ length: 15 }, (_, i) => (i % 2 === 0 ? 1e38 : -1e38)) };
    const labels = { shape: [3], values: Int32Array.of(0, 0, 2) };
    await expectEqualsCpu(loss, [logits, labels, { shape: [3], values: Float32Array.of(0, 0, 1) }]);
  });

  test.each([NaN, Infinity])('a logit of %d makes the loss and the gradient of its row NaN', async (lost) => {
    const [value, gradient] = tf.tidy(() => {
      const logits = tf.tensor2d([1, 2, lost, 4, 5, 6], [2, 3]);
      const labels = tf.tensor1d([0, 1], 'int32');
      const weights = tf.ones<tf.Rank.R1>([2]);
      const lossOf = (x: tf.Tensor): tf.Scalar => crossEntropySum(x as tf.Tensor2D, labels, weights);
      return [lossOf(logits), tf.grad(lossOf)(logits)];
    });
    expect(await value.data()).toEqual(Float32Array.of(NaN));
    expect([...(await gradient.data())].map(Number.isNaN)).toEqual([true, true, true, false, false, false]);
    tf.dispose([value, gradient]);
  });
});
