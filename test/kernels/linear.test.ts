import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { feedForward, linear, type Activation, type LinearOptions } from '../../src/kernels/linear.ts';
import { webgpuBackend } from '../../src/webgpu/backend.ts';
import { commandCounts } from '../../src/webgpu/commands.ts';
import { createRng, type Rng } from '../../src/util/rng.ts';
import { expectEqualBits, expectEqualsCpu, expectFiniteDifferences, uniform, type Input, type Op } from './compare.ts';

/** The parts of a layer that a test uses. */
interface Parts {
  bias: boolean;
  activation?: Activation;
  mask: boolean;
  residual: boolean;
  transposeWeights: boolean;
}

const ALL: Parts = { bias: true, activation: 'gelu', mask: true, residual: true, transposeWeights: false };

/** Returns `linear` as an op of float32 tensors: x, weights, then the chosen parts. */
function layer({ bias, activation, mask, residual, transposeWeights }: Parts): Op {
  return (x, weights, ...rest) => {
    const options: LinearOptions = { transposeWeights };
    if (activation) options.activation = activation;
    if (bias) options.bias = rest.shift()!;
    if (mask) options.mask = rest.shift()!;
    if (residual) options.residual = rest.shift()!;
    return linear(x, weights, options);
  };
}

function inputsOf(
  rng: Rng,
  shape: { batch: number; positions: number; from: number; to: number },
  parts: Parts,
): Input[] {
  const { batch, positions, from, to } = shape;
  return [
    uniform(rng, batch, positions, from),
    parts.transposeWeights ? uniform(rng, to, from) : uniform(rng, from, to),
    ...(parts.bias ? [uniform(rng, to)] : []),
    ...(parts.mask ? [uniform(rng, batch, 1, to)] : []),
    ...(parts.residual ? [uniform(rng, batch, positions, to)] : []),
  ];
}

const NOTHING: Parts = { bias: false, mask: false, residual: false, transposeWeights: false };
const LENGTHS = [1, 3, 4, 5, 8, 17, 31, 32, 33, 64, 65, 100];

test.for<[string, Parts]>([
  ['nothing else, and transposed weights', { ...NOTHING, transposeWeights: true }],
  ['bias and relu', { ...NOTHING, bias: true, activation: 'relu' }],
  ['gelu', { ...NOTHING, activation: 'gelu' }],
  ['mask and residual', { ...NOTHING, mask: true, residual: true }],
  ['all parts', ALL],
])('a linear layer and its gradients equal those of the CPU for 10 shapes: %s', async ([, parts]) => {
  const rng = createRng(1);
  const length = (): number => LENGTHS[rng.below(LENGTHS.length)]!;
  for (let i = 0; i < 10; i++) {
    const shape = { batch: 1 + rng.below(3), positions: 1 + rng.below(40), from: length(), to: length() };
    await expectEqualsCpu(layer(parts), inputsOf(rng, shape, parts));
  }
});

test('relu with a residual has the derivative of the value before the addition', async () => {
  const parts: Parts = { ...NOTHING, activation: 'relu', residual: true, mask: true };
  await expectEqualsCpu(layer(parts), inputsOf(createRng(5), { batch: 2, positions: 6, from: 9, to: 8 }, parts));
});

test('a feed-forward sublayer and its gradients equal those of the CPU', async () => {
  const rng = createRng(6);
  for (const [width, inner] of [
    [8, 32],
    [5, 7],
  ] as const) {
    const inputs = [uniform(rng, 2, 9, width), uniform(rng, width, inner), uniform(rng, inner, width)];
    await expectEqualsCpu(
      (x, expand, contract, mask) => feedForward(x, expand, contract, { mask, residual: x }),
      [...inputs, uniform(rng, 2, 1, width)],
    );
  }
});

test('a feed-forward sublayer takes 2 dispatches, and its gradient 4', () => {
  const [x, expand, contract] = [tf.ones([2, 9, 8]), tf.ones([8, 32]), tf.ones([32, 8])];
  const counts = commandCounts(webgpuBackend()!.device)!;
  const before = counts.dispatches;
  feedForward(x, expand, contract, { residual: x }).dispose();
  expect(counts.dispatches - before).toBe(2);
  const dy = tf.ones([2, 9, 8]);
  // x is not its own residual here, because its two gradients would be added.
  const gradients = tf.grads((a, b, c) => feedForward(a, b, c))([x, expand, contract], dy);
  expect(counts.dispatches - before).toBe(2 + 2 + 4);
  tf.dispose([x, expand, contract, dy, gradients]);
});

test('shapes that do not fit are rejected', () => {
  const [x, weights] = [tf.ones([2, 3]), tf.ones([4, 5])];
  expect(() => linear(x, weights)).toThrow('x [2,3] and weights [4,5]');
  tf.dispose([x, weights]);
});

test('gradients of a linear layer agree with finite differences', async () => {
  await expectFiniteDifferences(layer(ALL), inputsOf(createRng(2), { batch: 2, positions: 5, from: 9, to: 7 }, ALL));
});

test('a linear layer has equal bits in 20 runs', async () => {
  const inputs = inputsOf(createRng(3), { batch: 2, positions: 33, from: 20, to: 36 }, ALL);
  await expectEqualBits(layer(ALL), inputs);
});

test('a linear layer of two dimensions needs no batch', async () => {
  const rng = createRng(4);
  await expectEqualsCpu((x, w) => linear(x, w, { activation: 'relu' }), [uniform(rng, 6, 10), uniform(rng, 10, 3)]);
});

test('gelu is finite for large values', async () => {
  const value = linear(tf.tensor2d([[-200, 200, 0]]), tf.eye(3), { activation: 'gelu' });
  expect([...(await value.data())]).toEqual([expect.closeTo(0, 9), 200, 0]);
  value.dispose();
});
