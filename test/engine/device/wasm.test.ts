/** The WebAssembly backend, for tabs without a GPU, computes the same as the other backends. */
import * as tf from '@tensorflow/tfjs';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { openWasmBackend, startWasmThread } from '../../../src/engine/device/wasm.ts';
import { buildJobModel } from '../../../src/jobs/models/models.ts';
import { crossEntropySum } from '../../../src/gpu/kernels/crossEntropy.ts';
import { embedTokens } from '../../../src/gpu/kernels/embedding.ts';
import { writeVariables } from '../../../src/parallel/backward/flatten.ts';
import { createRng } from '../../../src/util/rng.ts';
import type { ThreadStart } from '../../../src/wasm/threads.ts';
import { differencesOf, jobCases, stockCases } from '../../layerCases.ts';

// The paths that Vite creates for a browser do not work in Node.
const files = vi.hoisted(() => {
  const path = 'node_modules/@tensorflow/tfjs-backend-wasm/dist/tfjs-backend-wasm';
  return { plain: { default: `${path}.wasm` }, simd: { default: `${path}-simd.wasm` } };
});
vi.mock('@tensorflow/tfjs-backend-wasm/dist/tfjs-backend-wasm.wasm?url', () => files.plain);
vi.mock('@tensorflow/tfjs-backend-wasm/dist/tfjs-backend-wasm-simd.wasm?url', () => files.simd);

beforeAll(async () => {
  expect(await openWasmBackend()).not.toBeNull();
});

const rng = createRng(1);
const random = (...shape: number[]): { shape: number[]; values: Float32Array } => ({
  shape,
  values: Float32Array.from({ length: shape.reduce((a, b) => a * b) }, () => rng.next() - 0.5),
});

/**
 * Runs `compute` on both backends, each with its own tensors. Returns both results, and checks that
 * no tensors leak.
 */
async function onBoth(compute: () => tf.Tensor[]): Promise<Float32Array[][]> {
  const all: Float32Array[][] = [];
  for (const backend of ['wasm', 'cpu']) {
    await tf.setBackend(backend);
    const { numTensors, numDataBuffers, numBytes } = tf.memory();
    const results = tf.tidy(compute);
    all.push(await Promise.all(results.map((one) => one.data<'float32'>())));
    tf.dispose(results);
    expect(tf.memory()).toMatchObject({ numTensors, numDataBuffers, numBytes });
  }
  return all;
}

function expectClose([actual, expected]: Float32Array[][]): void {
  for (const [i, values] of expected!.entries()) {
    const most = Math.max(...values.map((value, at) => Math.abs(value - actual![i]![at]!)));
    expect(most).toBeLessThan(1e-5 * (1 + Math.max(...values.map(Math.abs))));
  }
}

test('the error of a thread does not stop the engine', () => {
  const workers: Worker[] = [];
  class FailingWorker extends EventTarget {
    postMessage(): void {
      workers.push(this as unknown as Worker);
    }
  }
  vi.stubGlobal('Worker', FailingWorker);
  startWasmThread({} as ThreadStart);
  vi.unstubAllGlobals();
  const error = new Event('error', { cancelable: true });
  workers[0]!.dispatchEvent(error);
  expect(error.defaultPrevented).toBe(true);
});

test('the wasm backend computes the loss of classification jobs and its gradient like the cpu backend', async () => {
  const logits = random(4, 10);
  const compute = (): tf.Tensor[] => {
    const labels = tf.tensor1d([1, 9, 0, 4], 'int32');
    const weights = tf.tensor1d([1, 1, 0.5, 0]);
    const loss = (at: tf.Tensor): tf.Scalar => crossEntropySum(at as tf.Tensor2D, labels, weights);
    const at = tf.tensor2d(logits.values, [4, 10]);
    return [loss(at), tf.grad(loss)(at)];
  };
  const [actual, expected] = await onBoth(compute);
  expect(expected![0]![0]).toBeGreaterThan(1);
  expectClose([actual!, expected!]);
});

test('the wasm backend looks up embeddings and adds their gradients like the cpu backend', async () => {
  const table = random(7, 6);
  const positions = random(4, 6);
  const dy = random(3, 4, 6);
  const compute = (): tf.Tensor[] => {
    // Tokens occur several times, and three of them have no row in the table.
    const tokens = tf.tensor2d([0, 6, 6, -1, 2, 2, 2, 2, 7, 5, 2 ** 31 - 1, 0], [3, 4], 'int32');
    const at = [table, positions].map(({ values, shape }) => tf.tensor(values, shape));
    const embedded = (...all: tf.Tensor[]): tf.Tensor => embedTokens(tokens, all[0]!, all[1]!);
    return [embedded(...at), ...tf.grads(embedded)(at, tf.tensor(dy.values, dy.shape))];
  };
  const [actual, expected] = await onBoth(compute);
  expect([...expected![0]!.subarray(18, 24)].some((value) => value !== 0)).toBe(true);
  expectClose([actual!, expected!]);
});

test('a clone and a cast to the same type share memory with a variable until it is written', async () => {
  await tf.setBackend('wasm');
  const variable = tf.variable(tf.tensor1d([1, 2]));
  const { numDataBuffers } = tf.memory();
  const copies = [variable.clone(), tf.cast(variable, 'float32')];
  expect(tf.memory().numDataBuffers).toBe(numDataBuffers);
  writeVariables([variable], [{ parameter: 0, offset: 0, size: 2 }], Float32Array.of(3, 4));
  expect([variable, ...copies].map((tensor) => [...tensor.dataSync()])).toEqual([
    [3, 4],
    [1, 2],
    [1, 2],
  ]);
  tf.dispose([variable, ...copies]);
});

test.each<[string, () => tf.Tensor]>([
  ['sum', () => tf.sum(tf.zeros([0, 3]))],
  ['sum over the last axis', () => tf.sum(tf.zeros([3, 0]), 1)],
  ['sum over an axis in the middle', () => tf.sum(tf.zeros([2, 0, 3], 'int32'), 1, true)],
  ['mean', () => tf.mean(tf.zeros([0, 3]))],
  ['mean over the first axis', () => tf.mean(tf.zeros([0, 3]), 0, true)],
])('the wasm backend computes the %s of no numbers like the cpu backend', async (_, compute) => {
  const all: [number[], number[]][] = [];
  for (const backend of ['wasm', 'cpu']) {
    await tf.setBackend(backend);
    // New memory may have these values.
    tf.tidy(() => Array.from({ length: 9 }, () => tf.ones([3])));
    const result = tf.tidy(compute);
    all.push([result.shape, [...(await result.data())]]);
    result.dispose();
  }
  expect(all[0]).toEqual(all[1]);
});

test('the wasm backend casts numbers to truth values like the cpu backend', async () => {
  const [actual, expected] = await onBoth(() => [
    tf.cast(tf.tensor1d([0, -0, 0.5, 256, 2, NaN, -1]), 'bool'),
    tf.cast(tf.tensor1d([0, 256, -512, 1], 'int32'), 'bool'),
  ]);
  expect(actual).toEqual(expected);
});

test('the wasm backend embeds tokens without another tensor as large as the vocabulary', () => {
  const { numBytes } = tf.memory();
  const table = tf.zeros([4096, 2]);
  const most = tf.tidy(() => {
    embedTokens(tf.zeros([1, 64], 'int32'), table, tf.zeros([64, 2]));
    return tf.memory().numBytes - numBytes;
  });
  table.dispose();
  expect(most).toBeLessThan(4 * 4096 * 3);
});

test.each(['mlp', 'cnn'] as const)(
  'the wasm backend computes the gradients of %s like the cpu backend',
  async (name) => {
    const images = random(6, 28, 28, 1);
    const compute = (): tf.Tensor[] => {
      const model = buildJobModel({ model: name, hidden: 64, seed: 1 }, { inputShape: [28, 28, 1], classes: 10 });
      const xs = tf.tensor(images.values, images.shape);
      const ys = tf.oneHot(tf.tensor1d([1, 2, 3, 4, 5, 9], 'int32'), 10);
      const loss = (): tf.Scalar => tf.losses.softmaxCrossEntropy(ys, model.logits(xs));
      const { value, grads } = tf.variableGrads(loss, [...model.variables]);
      const gradients = model.variables.map((variable) => grads[variable.name]!);
      // Disposed of explicitly, because tidy does not dispose of variables.
      model.dispose();
      return [value, ...gradients];
    };
    expectClose(await onBoth(compute));
  },
);

test.each<[strides: [number, number], pad: 'same' | 'valid' | number, size: [number, number]]>([
  [[1, 1], 'same', [5, 7]],
  [[2, 2], 'same', [8, 8]],
  [[2, 3], 'valid', [9, 11]],
  [[2, 2], 2, [6, 5]],
])(
  'the wasm backend computes the filter gradient of a convolution with strides %j and padding %s like the cpu backend',
  async (strides, pad, size) => {
    const [x, filter] = [random(2, ...size, 3), random(3, 2, 3, 4)];
    const compute = (): tf.Tensor[] => {
      const image = tf.tensor4d(x.values, x.shape as [number, number, number, number]);
      const gradient = tf.grad((kernel: tf.Tensor) =>
        tf
          .conv2d(image, kernel as tf.Tensor4D, strides, pad)
          .square()
          .sum(),
      );
      return [gradient(tf.tensor4d(filter.values, filter.shape as [number, number, number, number]))];
    };
    expectClose(await onBoth(compute));
  },
);

test.each<[a: number[], b: number[], transposeA: boolean, transposeB: boolean]>([
  [[40, 20], [40, 30], true, false],
  [[20, 40], [30, 40], false, true],
  [[40, 20], [30, 40], true, true],
  [[40, 20], [40, 3], true, false],
  [[3, 40], [30, 40], false, true],
  [[40, 3], [30, 40], true, true],
  [[1, 40, 20], [40, 30], true, false],
  [[5, 40, 20], [5, 40, 30], true, false],
  [[5, 20, 40], [1, 30, 40], false, true],
  [[16, 1], [16, 16], true, false],
  [[1, 32, 200], [300, 200], false, true],
  [[32, 200], [1, 1, 300, 200], false, true],
  [[1, 2, 32, 32], [2, 1, 32, 32], false, false],
])(
  'the wasm backend multiplies %j by %j (transposed: %s, %s) like the cpu backend',
  async (a, b, transposeA, transposeB) => {
    const [left, right] = [random(...a), random(...b)];
    const compute = (): tf.Tensor[] => [
      tf.matMul(tf.tensor(left.values, a), tf.tensor(right.values, b), transposeA, transposeB),
    ];
    expectClose(await onBoth(compute));
  },
);

test('the wasm backend multiplies a matrix again after it was reshaped', async () => {
  const [x, a, b] = [random(32, 256), random(32, 10), random(128, 10)];
  const compute = (): tf.Tensor[] => {
    const matrix = tf.tensor2d(x.values, [32, 256]);
    return [
      tf.matMul(matrix, tf.tensor2d(a.values, [32, 10]), true),
      tf.matMul(matrix.reshape<tf.Tensor2D>([128, 64]), tf.tensor2d(b.values, [128, 10]), true),
    ];
  };
  expectClose(await onBoth(compute));
});

test.each([
  [[2, 3, 32, 32], [6, 32, 32], 'float32'],
  [[3, 32, 32], [3, 32, 32], 'int32'],
] as const)('the wasm backend refuses to multiply %j by %j as %s', async (a, b, dtype) => {
  await tf.setBackend('wasm');
  expect(() => tf.tidy(() => tf.matMul(tf.ones([...a], dtype), tf.ones([...b], dtype)))).toThrow();
});

test.each<[a: number[], b: number[], transposeA: boolean, transposeB: boolean]>([
  [[32, 200], [300, 200], false, true],
  [[30, 200], [30, 9], true, false],
  [[70, 9], [80, 70], true, true],
])(
  'a product of %j and %j has the same bits whether matrices or the product are transposed (%s, %s)',
  async (a, b, transposeA, transposeB) => {
    await tf.setBackend('wasm');
    const [left, right] = [random(...a), random(...b)];
    const [product, direct] = tf.tidy(() => {
      const [x, y] = [
        tf.tensor2d(left.values, a as [number, number]),
        tf.tensor2d(right.values, b as [number, number]),
      ];
      return [
        tf.matMul(x, y, transposeA, transposeB).dataSync(),
        tf.matMul(transposeA ? tf.transpose(x) : x, transposeB ? tf.transpose(y) : y).dataSync(),
      ];
    });
    expect(product).toEqual(direct);
  },
);

test.each([
  [false, true],
  [true, false],
])('the wasm backend multiplies batches of large matrices like the cpu backend (transposed: %s, %s)', async (a, b) => {
  const [left, right] = [random(2, 256, 256), random(2, 256, 256)];
  const compute = (): tf.Tensor[] => {
    const [x, y] = [left, right].map(({ shape, values }) => tf.tensor(values, [1, ...shape]));
    // A part of the result: all values are passed to functions as arguments.
    return [tf.matMul(x!, y!, a, b).slice([0, 0, 0, 0], [1, 2, 256, 32])];
  };
  expectClose(await onBoth(compute));
});

const picture = (): tf.Tensor4D => tf.ones([1, 7, 6, 2]);
const bools = (): tf.Tensor => tf.tensor1d([1, 0, 1], 'bool');
const volumeGradient = (dtype: 'int32' | 'bool'): tf.Tensor =>
  tf.grad((x: tf.Tensor) => tf.maxPool3d(tf.cast(x, dtype) as tf.Tensor5D, 2, 1, 'valid'))(tf.ones([1, 2, 2, 2, 1]));
const ints = (): tf.Tensor => tf.tensor1d([5, -5], 'int32');

describe('the wasm backend rejects, with the name of the kernel,', () => {
  test.each<[string, RegExp, () => tf.Tensor]>([
    [
      'padding that is a number, for strides of two lengths',
      /^Conv2D: .*output of 3 x 6, but .*expects 3 x 2\. Pass `pad` as/,
      () => tf.conv2d(picture(), tf.ones([1, 1, 2, 4]), [3, 1], 0),
    ],
    [
      'rounding up of a convolution',
      /^Conv2D: /,
      () => tf.conv2d(picture(), tf.ones([2, 2, 2, 4]), 2, 1, 'NHWC', 1, 'ceil'),
    ],
    [
      'rounding up of a depthwise convolution',
      /^DepthwiseConv2dNative: /,
      () => tf.depthwiseConv2d(picture(), tf.ones([2, 2, 2, 4]), 2, 1, 'NHWC', 1, 'ceil'),
    ],
    ['rounding up of maxima', /^MaxPool: /, () => tf.maxPool(picture(), 2, 2, 1, 'ceil')],
    ['rounding up of means', /^AvgPool: /, () => tf.avgPool(picture(), 2, 2, 1, 'ceil')],
    ['clipping of integers', /^ClipByValue: .*int32.*Cast x to float32/, () => tf.clipByValue(ints(), -2, 2)],
    ['reciprocals of integers', /^Reciprocal: /, () => tf.reciprocal(ints())],
    ['the search for NaN in integers', /^IsNan: /, () => tf.isNaN(ints())],
    ['reversed truth values', /^Reverse: .*bool/, () => tf.reverse(bools())],
    ['steps through truth values', /^StridedSlice: .*bool/, () => tf.stridedSlice(bools(), [0], [3], [2])],
    [
      'gradients of maxima of integers in volumes',
      /^MaxPool3DGrad: .*int32.*Cast input/,
      () => volumeGradient('int32'),
    ],
    ['gradients of maxima of truth values in volumes', /^MaxPool3DGrad: .*bool/, () => volumeGradient('bool')],
    ['a choice between truth values', /^Select: .*bool.*Cast t/, () => tf.where(bools(), bools(), bools())],
  ])('%s', async (_, message, compute) => {
    await tf.setBackend('wasm');
    expect(() => tf.tidy(compute)).toThrow(message);
  });
});

test.each([...jobCases, ...stockCases])(
  'the wasm backend computes %s with all options, and the gradient, like the cpu backend',
  async (_, cases) => {
    expect(cases.length).toBeGreaterThan(0);
    expect(await differencesOf(cases, 'wasm')).toEqual([]);
  },
);
