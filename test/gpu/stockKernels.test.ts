/**
 * The contract with the kernels of TensorFlow.js: names, inputs and attributes that the
 * replacements of src/gpu/kernels rely on.
 */
import * as tf from '@tensorflow/tfjs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { chooseWebGpuKernels } from '../../src/gpu/kernels/index.ts';

beforeEach(() => chooseWebGpuKernels('stock'));
afterEach(() => chooseWebGpuKernels('own'));

interface Call {
  inputs: string[];
  attrs: Record<string, unknown>;
}

/** Runs `compute`, and returns the inputs and attributes of each call of a kernel. */
function callsOf(kernelName: string, compute: () => tf.TensorContainer): Call[] {
  const calls: Call[] = [];
  const stock = tf.getKernel(kernelName, 'webgpu');
  const observed: tf.KernelConfig = {
    ...stock,
    kernelFunc: (args) => {
      calls.push({ inputs: Object.keys(args.inputs).sort(), attrs: { ...args.attrs } });
      return stock.kernelFunc(args);
    },
  };
  tf.unregisterKernel(kernelName, 'webgpu');
  tf.registerKernel(observed);
  try {
    tf.dispose(tf.tidy(compute));
  } finally {
    tf.unregisterKernel(kernelName, 'webgpu');
    tf.registerKernel(stock);
  }
  return calls;
}

const product = (a: tf.Tensor, b: tf.Tensor): tf.Tensor => tf.matMul(a, b);
const convolution = (x: tf.Tensor, filter: tf.Tensor): tf.Tensor =>
  tf.conv2d(x as tf.Tensor4D, filter as tf.Tensor4D, 2, 'same');

test('BatchMatMul has the inputs a and b, even in the gradient of a product', () => {
  const forward = callsOf('BatchMatMul', () => tf.matMul(tf.ones([3, 4]), tf.ones([5, 4]), false, true));
  expect(forward).toEqual([{ inputs: ['a', 'b'], attrs: { transposeA: false, transposeB: true } }]);
  const backward = callsOf('BatchMatMul', () => tf.grads(product)([tf.ones([3, 4]), tf.ones([4, 5])]));
  expect(backward.slice(1).map(({ attrs }) => attrs)).toEqual([
    { transposeA: false, transposeB: true },
    { transposeA: true, transposeB: false },
  ]);
});

test('_FusedMatMul has a bias and an activation', () => {
  const [a, b, bias] = [tf.ones([3, 4]), tf.ones([4, 5]), tf.ones([5])];
  const fused = (): tf.Tensor => tf.fused.matMul({ a, b, bias, activation: 'relu' });
  const [call] = callsOf('_FusedMatMul', fused);
  expect(call!.inputs).toEqual(['a', 'b', 'bias', 'preluActivationWeights']);
  expect(call!.attrs).toMatchObject({ transposeA: false, transposeB: false, activation: 'relu' });
  tf.dispose([a, b, bias]);
});

test('the gradients of conv2d are Conv2DBackpropFilter and Conv2DBackpropInput', () => {
  const [x, filter] = [tf.ones([1, 6, 6, 3]), tf.ones([3, 3, 3, 2])];
  const compute = (): tf.TensorContainer => tf.grads(convolution)([x, filter]);
  const common = { strides: 2, pad: 'same', dataFormat: 'NHWC' };
  expect(callsOf('Conv2DBackpropFilter', compute)).toMatchObject([
    { inputs: ['dy', 'x'], attrs: { ...common, filterShape: [3, 3, 3, 2] } },
  ]);
  expect(callsOf('Conv2DBackpropInput', compute)).toMatchObject([
    { inputs: ['dy', 'filter'], attrs: { ...common, inputShape: [1, 6, 6, 3] } },
  ]);
  tf.dispose([x, filter]);
});

test('the stock kernels return after own kernels were in use', () => {
  const stock = tf.getKernel('BatchMatMul', 'webgpu');
  chooseWebGpuKernels('own');
  chooseWebGpuKernels('stock');
  expect(tf.getKernel('BatchMatMul', 'webgpu').kernelFunc).toBe(stock.kernelFunc);
});
