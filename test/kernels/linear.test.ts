import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { linear, type Activation, type LinearOptions } from '../../src/kernels/linear.ts';
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

const LENGTHS = [1, 2, 3, 4, 5, 8, 12, 17, 31, 32, 33, 64, 65, 100];

test('a linear layer and its gradients equal those of the CPU for 50 shapes and choices of parts', async () => {
  const rng = createRng(1);
  const length = (): number => LENGTHS[rng.below(LENGTHS.length)]!;
  for (let i = 0; i < 50; i++) {
    const shape = { batch: 1 + rng.below(3), positions: 1 + rng.below(40), from: length(), to: length() };
    const parts: Parts = {
      bias: rng.below(2) === 0,
      mask: rng.below(2) === 0,
      residual: rng.below(2) === 0,
      transposeWeights: rng.below(2) === 0,
    };
    if (rng.below(3) > 0) parts.activation = rng.below(2) === 0 ? 'relu' : 'gelu';
    await expectEqualsCpu(layer(parts), inputsOf(rng, shape, parts));
  }
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
  expect([...(await value.data())]).toEqual([-0, 200, 0]);
  value.dispose();
});
