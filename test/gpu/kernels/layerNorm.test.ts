import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { layerNorm } from '../../../src/gpu/kernels/layerNorm.ts';
import { createRng } from '../../../src/util/rng.ts';
import { expectEqualBits, expectEqualsCpu, expectFiniteDifferences, uniform, type Input, type Op } from './compare.ts';
import { ADAPTER_KINDS, useAdapter } from './adapters.ts';
import { dispatchesOf } from './dispatches.ts';

const EPSILON = 1e-5;
const norm: Op = (x, scale, offset) => layerNorm(x, scale, offset, EPSILON);

/** x, scale and offset. */
function inputsOf(seed: number, ...shape: number[]): Input[] {
  const rng = createRng(seed);
  const channels = shape.at(-1)!;
  return [uniform(rng, ...shape), uniform(rng, channels), uniform(rng, channels)];
}

/** The op and its gradient by x in double precision, for a scale of 1 and an offset of 0. */
function exactly(x: Float32Array, dy: Float32Array): { y: number[]; dx: number[] } {
  const meanOf = (of: (i: number) => number): number => x.reduce((sum, _, i) => sum + of(i), 0) / x.length;
  const mean = meanOf((i) => x[i]!);
  const r = 1 / Math.sqrt(meanOf((i) => (x[i]! - mean) ** 2) + EPSILON);
  const y = Array.from(x, (value) => (value - mean) * r);
  const [dyMean, product] = [meanOf((i) => dy[i]!), meanOf((i) => dy[i]! * y[i]!)];
  return { y, dx: y.map((z, i) => r * (dy[i]! - dyMean - z * product)) };
}

async function expectNear(tensor: tf.Tensor, expected: readonly number[]): Promise<void> {
  const largest = Math.max(...expected.map(Math.abs));
  for (const [i, value] of (await tensor.data()).entries())
    expect(Math.abs(value - expected[i]!) / largest).toBeLessThan(1e-5);
}

describe.each(ADAPTER_KINDS)('on a %s adapter', (kind) => {
  useAdapter(kind);

  test('layerNorm and its gradients equal those of the CPU backend for 50 shapes', async () => {
    const rng = createRng(1);
    // With two channels or fewer, gradients of x are differences of equal numbers.
    const shapes = Array.from({ length: 45 }, () => [1 + rng.below(70), 3 + rng.below(35)]);
    for (const [i, shape] of [[1, 3], [3, 5, 64], [9, 150], [2, 9001], [70_000, 3], ...shapes].entries()) {
      await expectEqualsCpu(norm, inputsOf(i, ...shape));
    }
  });

  test('the gradients of layerNorm equal finite differences', async () => {
    await expectFiniteDifferences(norm, inputsOf(2, 5, 12));
  });

  test('layerNorm has the same bits in every run', async () => {
    await expectEqualBits(norm, inputsOf(3, 100, 68));
  });

  test('layerNorm of a constant row is the offset, and its gradient is 0', async () => {
    const x = tf.tensor2d(new Float32Array(3 * 37).fill(1234.567), [3, 37]);
    const offset = tf.linspace(-1, 1, 37);
    const scale = tf.ones([37]);
    const y = layerNorm(x, scale, offset, EPSILON);
    const dx = tf.grad((input) => layerNorm(input, scale, offset, EPSILON))(x, tf.ones([3, 37]));
    const expected = await offset.data();
    for (const [i, value] of (await y.data()).entries()) expect(value).toBeCloseTo(expected[i % 37]!, 6);
    for (const value of await dx.data()) expect(value).toBeCloseTo(0, 4);
    tf.dispose([x, offset, scale, y, dx]);
  });

  test.each([
    [1e3, 64],
    [-1e5, 333],
    [1e7, 2050],
  ])('layerNorm is accurate for rows with a mean of %f and %i channels', async (mean, channels) => {
    const rng = createRng(5);
    const [{ values: noise }, { values }] = [uniform(rng, 1, channels), uniform(rng, 1, channels)];
    // Float32 has multiples of 1 at 1e7.
    const x = Float32Array.from(noise, (value) => mean + 8 * value);
    const dy = Float32Array.from(values);
    const given = tf.tensor2d(x, [1, channels]);
    const [scale, offset, upstream] = [tf.ones([channels]), tf.zeros([channels]), tf.tensor2d(dy, [1, channels])];
    const y = layerNorm(given, scale, offset, EPSILON);
    const [dx, dscale] = tf.grads((input, factor) => layerNorm(input, factor, offset, EPSILON))(
      [given, scale],
      upstream,
    );
    const exact = exactly(x, dy);
    await expectNear(y, exact.y);
    await expectNear(dx!, exact.dx);
    await expectNear(
      dscale!,
      exact.y.map((z, i) => z * dy[i]!),
    );
    tf.dispose([given, scale, offset, upstream, y, dx!, dscale!]);
  });

  test('layerNorm accepts zero rows, and the gradients of scale and offset are then 0', async () => {
    const [x, scale, offset] = [tf.zeros([0, 8]), tf.ones([8]), tf.ones([8])];
    const [dx, dscale, doffset] = tf.grads(norm)([x, scale, offset], tf.zeros([0, 8]));
    expect(dx!.shape).toEqual([0, 8]);
    for (const gradient of [dscale!, doffset!]) expect([...(await gradient.data())]).toEqual(Array(8).fill(0));
    tf.dispose([x, scale, offset, dx!, dscale!, doffset!]);
  });

  test('layerNorm takes one dispatch, and its gradients four', () => {
    const [x, scale, offset, dy] = [tf.ones([7, 130]), tf.ones([130]), tf.ones([130]), tf.ones([7, 130])];
    expect(dispatchesOf(() => norm(x, scale, offset))).toBe(1);
    expect(dispatchesOf(() => tf.grads(norm)([x, scale, offset], dy))).toBe(1 + 4);
    tf.dispose([x, scale, offset, dy]);
  });
});
