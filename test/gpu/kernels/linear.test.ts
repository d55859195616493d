import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { linear, type LinearOptions } from '../../../src/gpu/kernels/linear.ts';
import type { MatMulActivation } from '../../../src/gpu/kernels/matMul/epilogue.ts';
import { createRng, type Rng } from '../../../src/util/rng.ts';
import { expectEqualBits, expectEqualsCpu, expectFiniteDifferences, uniform, type Input, type Op } from './compare.ts';
import { ADAPTER_KINDS, expectSameBitsOnAdapters, useAdapter } from './adapters.ts';

/** The parts of a layer that a test uses. */
interface Parts {
  bias: boolean;
  activation?: MatMulActivation;
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
const ODD = [1, 3, 5, 17, 31, 33];
const FOURS = [4, 8, 32, 36];

describe.each(ADAPTER_KINDS)('on a %s adapter', (kind) => {
  useAdapter(kind);

  // Other code runs for lengths that are multiples of 4. Most of the time is spent in compilation.
  test.for<[string, Parts, { shapes: number; from: number[]; to: number[] }]>([
    ['all parts', ALL, { shapes: 20, from: ODD, to: ODD }],
    ['bias and relu', { ...NOTHING, bias: true, activation: 'relu' }, { shapes: 15, from: FOURS, to: FOURS }],
    [
      'transposed weights, mask and residual',
      { ...NOTHING, transposeWeights: true, mask: true, residual: true },
      { shapes: 15, from: FOURS, to: ODD },
    ],
  ])('a linear layer and its gradients equal those of the CPU backend: %s', async ([, parts, { shapes, from, to }]) => {
    const rng = createRng(1);
    const oneOf = (lengths: number[]): number => lengths[rng.below(lengths.length)]!;
    for (let i = 0; i < shapes; i++) {
      const shape = { batch: 1 + rng.below(3), positions: 1 + rng.below(20), from: oneOf(from), to: oneOf(to) };
      await expectEqualsCpu(layer(parts), inputsOf(rng, shape, parts));
    }
  });

  test('relu with a residual uses, for its derivative, the value before the residual is added', async () => {
    const parts: Parts = { ...NOTHING, activation: 'relu', residual: true, mask: true };
    await expectEqualsCpu(layer(parts), inputsOf(createRng(5), { batch: 2, positions: 6, from: 9, to: 7 }, parts));
  });

  test.each([4, 5])('the gradient of a bias with %i channels counts only rows that the mask keeps', async (to) => {
    const parts: Parts = { ...NOTHING, bias: true, mask: true };
    await expectEqualsCpu(layer(parts), inputsOf(createRng(7), { batch: 3, positions: 6, from: 4, to }, parts));
  });

  test('linear rejects shapes that do not fit', () => {
    const [x, weights] = [tf.ones([2, 3]), tf.ones([4, 5])];
    expect(() => linear(x, weights)).toThrow('x [2,3] and weights [4,5]');
    tf.dispose([x, weights]);
  });

  test('the gradients of a linear layer equal finite differences', async () => {
    await expectFiniteDifferences(layer(ALL), inputsOf(createRng(2), { batch: 2, positions: 5, from: 9, to: 7 }, ALL));
  });

  test('a linear layer has the same bits in 20 runs', async () => {
    const inputs = inputsOf(createRng(3), { batch: 2, positions: 33, from: 21, to: 35 }, ALL);
    await expectEqualBits(layer(ALL), inputs);
  });

  test('a linear layer accepts inputs of two dimensions, without a batch', async () => {
    const rng = createRng(4);
    await expectEqualsCpu(
      (x, w, bias) => linear(x, w, { bias, activation: 'relu' }),
      [uniform(rng, 6, 8), uniform(rng, 8, 4), uniform(rng, 4)],
    );
  });

  test.each(['gelu', 'geluErf'] as const)('%s and its derivative are finite for large values', async (activation) => {
    const xs = tf.tensor2d([[-1e4, -200, 200, 1e4, 0]]);
    const { value, grad } = tf.valueAndGrad((x) => linear(x, tf.eye(5), { activation }))(xs, tf.ones([1, 5]));
    expect([...(await value.data())]).toEqual([expect.closeTo(0, 9), expect.closeTo(0, 9), 200, 1e4, 0]);
    expect([...(await grad.data())]).toEqual([0, 0, 1, 1, 0.5].map((slope) => expect.closeTo(slope, 6) as number));
    tf.dispose([xs, value, grad]);
  });

  test('geluErf and its gradients equal those of the CPU and finite differences', async () => {
    const parts: Parts = { ...ALL, activation: 'geluErf' };
    const inputs = inputsOf(createRng(6), { batch: 2, positions: 5, from: 9, to: 7 }, parts);
    const large = inputs.map((input, i) => (i === 0 ? { ...input, values: input.values.map((v) => 4 * v) } : input));
    await expectEqualsCpu(layer(parts), large);
    await expectFiniteDifferences(layer(parts), inputs);
    await expectEqualBits(layer(parts), inputs);
  });

  test.each([4, 3])('a relu of NaN is NaN, as in the kernels of TensorFlow.js (%i columns)', async (columns) => {
    const x = tf.tensor2d([NaN, 1, -2, 1], [2, 2]);
    const weights = tf.ones([2, columns]);
    const y = linear(x, weights, { activation: 'relu' });
    expect([...(await y.data())]).toEqual([...Array<number>(columns).fill(NaN), ...Array<number>(columns).fill(0)]);
    tf.dispose([x, weights, y]);
  });
});

test.each([
  { from: 21, to: 35 },
  { from: 36, to: 32 },
])('a linear layer has the same bits on both kinds of adapters ($from to $to channels)', async ({ from, to }) => {
  await expectSameBitsOnAdapters(layer(ALL), inputsOf(createRng(8), { batch: 2, positions: 33, from, to }, ALL));
});
