import * as tf from '@tensorflow/tfjs';
import { afterEach, expect, test } from 'vitest';
import { lossSumFunctionOf } from '../../../src/jobs/models/loss.ts';
import { buildJobModel } from '../../../src/jobs/models/models.ts';
import { chooseWebGpuKernels } from '../../../src/gpu/kernels/index.ts';
import type { GpuKernelChoice, BuiltInModelName } from '../../../src/spec/names.ts';
import { createRng } from '../../../src/util/rng.ts';
import { integers, uniform } from './compare.ts';
import { dispatchesOf } from './dispatches.ts';

const BATCH = 4;
const SIDE = 12;
const DATA = { inputShape: [SIDE, SIDE, 1], classes: 10 } as const;

afterEach(() => {
  chooseWebGpuKernels('own');
});

/** A model with the gradients of its loss for one batch of fixed samples. */
function trainingOf(name: BuiltInModelName) {
  const model = buildJobModel({ model: name, hidden: 16, seed: 1 }, DATA);
  const rng = createRng(1);
  const x = tf.tensor(uniform(rng, BATCH, SIDE, SIDE, 1).values, [BATCH, SIDE, SIDE, 1]);
  const labels = tf.tensor1d(integers(rng, 10, BATCH).values, 'int32');
  const weights = tf.ones([BATCH]) as tf.Tensor1D;
  const lossSum = lossSumFunctionOf('cross-entropy');
  return {
    gradients: () => tf.variableGrads(() => lossSum(model.logits(x), labels, weights), [...model.variables]),
    dispose: () => {
      model.dispose();
      tf.dispose([x, labels, weights]);
    },
  };
}

async function lossesOf(name: BuiltInModelName, kernels: GpuKernelChoice): Promise<number[]> {
  chooseWebGpuKernels(kernels);
  const before = tf.memory().numTensors;
  const { gradients, dispose } = trainingOf(name);
  const optimizer = tf.train.sgd(0.05);
  const losses: number[] = [];
  for (let step = 0; step < 20; step++) {
    const { value, grads } = gradients();
    optimizer.applyGradients(Object.entries(grads).map(([variable, tensor]) => ({ name: variable, tensor })));
    losses.push((await value.data())[0]!);
    tf.dispose([value, grads]);
  }
  optimizer.dispose();
  dispose();
  expect(tf.memory().numTensors).toBe(before);
  return losses;
}

test.each(['mlp', 'cnn'] as const)('%s has the losses of the stock kernels in 20 steps', async (name) => {
  const stock = await lossesOf(name, 'stock');
  const own = await lossesOf(name, 'own');
  expect(stock.at(-1)).toBeLessThan(stock[0]! / 2);
  for (const [step, loss] of own.entries())
    expect(Math.abs(loss / stock[step]! - 1), `step ${step}`).toBeLessThan(1e-4);
});

test.each([
  ['mlp', { own: 10, stock: 32 }],
  ['cnn', { own: 16, stock: 43 }],
] as const)('the gradients of %s take fewer dispatches than with the stock kernels', (name, expected) => {
  const { gradients, dispose } = trainingOf(name);
  const count = (kernels: GpuKernelChoice): number => {
    chooseWebGpuKernels(kernels);
    return dispatchesOf(gradients);
  };
  expect({ own: count('own'), stock: count('stock') }).toEqual(expected);
  dispose();
});
