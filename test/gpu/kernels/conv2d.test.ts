import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { conv2d, type Conv2dOptions } from '../../../src/gpu/kernels/conv2d/conv2d.ts';
import { createRng, type Rng } from '../../../src/util/rng.ts';
import { expectEqualBits, expectEqualsCpu, expectFiniteDifferences, uniform, type Input, type Op } from './compare.ts';
import { dispatchesOf } from './dispatches.ts';

type Options = Omit<Conv2dOptions, 'bias'>;
type Shapes = { x: [number, number, number, number]; filter: [number, number, number, number] };

/**
 * Input and output channels, each with one activation: pairs for all variants of the shaders would
 * take too long to compile.
 */
const CHANNELS = [
  [1, 8, 'relu'],
  [8, 16, 'relu'],
  [3, 5, 'linear'],
  [2, 33, 'linear'],
] as const;

/** Strides may be larger than the filter, and than the image. */
function randomConvolution(rng: Rng, index: number): { shapes: Shapes; options: Options } {
  const side = (most: number): number => 1 + rng.below(most);
  const [channels, outChannels, activation] = CHANNELS[index % CHANNELS.length]!;
  const filter: Shapes['filter'] = [side(3), side(4), channels, outChannels];
  const x: Shapes['x'] = [side(2), filter[0] + rng.below(5), filter[1] + rng.below(5), channels];
  const pad = (['same', 'valid'] as const)[rng.below(2)]!;
  return { shapes: { x, filter }, options: { strides: [side(3), side(3)], pad, activation } };
}

function inputsOf(rng: Rng, { x, filter }: Shapes): Input[] {
  return [uniform(rng, ...x), uniform(rng, ...filter), uniform(rng, filter[3])];
}

function opOf(options: Options): Op {
  return (x, filter, bias) => conv2d(x as tf.Tensor4D, filter as tf.Tensor4D, { ...options, bias });
}

test('conv2d and its gradients equal those of the CPU backend for 50 shapes', async () => {
  const rng = createRng(1);
  for (let i = 0; i < 50; i++) {
    const { shapes, options } = randomConvolution(rng, i);
    await expectEqualsCpu(opOf(options), inputsOf(rng, shapes));
  }
});

test("TensorFlow.js's convolution and its gradients equal those of the CPU backend", async () => {
  const rng = createRng(2);
  for (let i = 0; i < 4; i++) {
    const { shapes, options } = randomConvolution(rng, 2);
    const [x, filter, bias] = inputsOf(rng, shapes) as [Input, Input, Input];
    const { strides, pad } = options;
    await expectEqualsCpu((a, b) => tf.conv2d(a as tf.Tensor4D, b as tf.Tensor4D, strides, pad), [x, filter]);
    const fused: Op = (a, b, c) =>
      tf.fused.conv2d({ x: a as tf.Tensor4D, filter: b as tf.Tensor4D, bias: c, strides, pad });
    await expectEqualsCpu(fused, [x, filter, bias]);
  }
});

test('conv2d supports many positions, which it divides among workgroups', async () => {
  const shapes: Shapes = { x: [8, 28, 28, 1], filter: [5, 5, 1, 8] };
  await expectEqualsCpu(opOf({ strides: [2, 2], pad: 'same', activation: 'relu' }), inputsOf(createRng(3), shapes));
});

const small: Shapes = { x: [2, 9, 8, 4], filter: [3, 3, 4, 6] };

test('the gradients of conv2d equal finite differences', async () => {
  await expectFiniteDifferences(opOf({ strides: [2, 1], pad: 'same' }), inputsOf(createRng(4), small));
});

test('conv2d has the same bits in every run', async () => {
  const shapes: Shapes = { x: [4, 20, 20, 3], filter: [3, 3, 3, 5] };
  await expectEqualBits(opOf({ strides: [1, 1], pad: 'valid', activation: 'relu' }), inputsOf(createRng(5), shapes));
});

test('a dilated convolution equals that of the CPU, because the stock kernel computes it', async () => {
  const [x, filter] = inputsOf(createRng(6), small) as [Input, Input];
  const compute = (): tf.Tensor =>
    tf.tidy(() =>
      tf.conv2d(tf.tensor4d(x.values, small.x), tf.tensor4d(filter.values, small.filter), 1, 'same', 'NHWC', 2),
    );
  const onGpu = compute();
  const values = await onGpu.data();
  await tf.setBackend('cpu');
  const onCpu = compute();
  const expected = await onCpu.data();
  await tf.setBackend('webgpu');
  for (const [i, value] of values.entries()) expect(value).toBeCloseTo(expected[i]!, 4);
  tf.dispose([onGpu, onCpu]);
});

function onesOfSmall(): tf.Tensor[] {
  return [tf.ones(small.x), tf.ones(small.filter), tf.ones([small.filter[3]])];
}

test('conv2d takes one dispatch, and four for its gradients', () => {
  const step = opOf({ strides: [1, 1], pad: 'same', activation: 'relu' });
  expect(dispatchesOf(() => step(...onesOfSmall()))).toBe(1);
  const dy = tf.ones([2, 9, 8, 6]);
  expect(dispatchesOf(() => tf.grads(step)(onesOfSmall(), dy))).toBe(1 + 4);
  dy.dispose();
});
