/** This project's kernels on WebAssembly. */
import * as tf from '@tensorflow/tfjs';
import { setWasmPaths } from '@tensorflow/tfjs-backend-wasm';
import { beforeAll, expect, test } from 'vitest';
import { switchToWasmBackend } from '../../src/engine/device/wasmBackend.ts';
import { causalAttention, causalMask } from '../../src/gpu/kernels/attention/causalAttention.ts';
import { columnSum } from '../../src/gpu/kernels/columnSum.ts';
import { crossEntropySum } from '../../src/gpu/kernels/crossEntropy.ts';
import { hasKernel } from '../../src/gpu/kernels/registry.ts';
import { rmsNorm, rmsNormResidual } from '../../src/gpu/kernels/rmsNorm.ts';
import { createRng, type Rng } from '../../src/util/rng.ts';
import { MODULES, sourcesHash } from '../../tools/kernels/sources.ts';
import { expectEqualsCpu, integers, uniform, type Input, type Op } from '../gpu/kernels/compare.ts';

beforeAll(async () => {
  setWasmPaths('node_modules/@tensorflow/tfjs-backend-wasm/dist/');
  expect(await switchToWasmBackend()).toBe(true);
});

const expectLikeCpu = (op: Op, inputs: readonly Input[]): Promise<void> => expectEqualsCpu(op, inputs, 1e-5, 'wasm');

test.each(MODULES)('the compiled module $output belongs to its sources', async ({ folder, output }) => {
  const { SOURCES } = (await import(`../../${output}`)) as { SOURCES: string };
  expect(SOURCES, 'run npm run kernels').toBe(sourcesHash(folder));
});

test('the kernels are registered', async () => {
  await tf.setBackend('wasm');
  expect(['CausalAttention', 'CrossEntropySum', 'RmsNorm'].map(hasKernel)).toEqual([true, true, true]);
});

/** Sizes around those of tiles and of cached parts: 4 rows, 8 columns, 256 of the inner axis. */
test.each([
  [1, 1, 1],
  [3, 5, 7],
  [4, 8, 256],
  [9, 17, 300],
  [70, 30, 513],
  [13, 1100, 33],
])('a product of %i rows, %i columns and %i inner elements adds in their order', async (rows, columns, inner) => {
  await tf.setBackend('wasm');
  const rng = createRng(rows);
  const [x, y] = [uniform(rng, rows, inner), uniform(rng, inner, columns)] as const;
  const expected = Float32Array.from({ length: rows * columns }, (_, at) => {
    const [row, column] = [Math.floor(at / columns), at % columns];
    let sum = 0;
    for (let k = 0; k < inner; k++) {
      sum = Math.fround(sum + Math.fround(x.values[row * inner + k]! * y.values[k * columns + column]!));
    }
    return sum;
  });
  for (const [transposeA, transposeB] of [
    [false, false],
    [false, true],
    [true, false],
    [true, true],
  ] as const) {
    const product = tf.tidy(() => {
      const a = tf.tensor2d(x.values, [rows, inner]);
      const b = tf.tensor2d(y.values, [inner, columns]);
      return tf.matMul(transposeA ? a.transpose() : a, transposeB ? b.transpose() : b, transposeA, transposeB);
    });
    expect(await product.data()).toEqual(expected);
    product.dispose();
  }
});

async function productOn(backend: string, a: Input, b: Input): Promise<[shape: number[], values: Float32Array]> {
  await tf.setBackend(backend);
  const result = tf.tidy(() => tf.matMul(tf.tensor(a.values, a.shape), tf.tensor(b.values, b.shape)));
  // The CPU backend returns more values than an empty tensor has.
  const values = result.dataSync<'float32'>().slice(0, result.size);
  result.dispose();
  return [result.shape, values];
}

test.each<[a: number[], b: number[]]>([
  [
    [1, 1, 2, 3],
    [4, 3, 5],
  ],
  [
    [4, 2, 3],
    [1, 1, 3, 5],
  ],
  [
    [0, 2, 3],
    [3, 5],
  ],
  [
    [1, 2, 3],
    [0, 3, 5],
  ],
  [
    [4, 0],
    [0, 5],
  ],
])('a product of %j and %j has the shape and values of the CPU', async (a, b) => {
  const rng = createRng(1);
  const [x, y] = [uniform(rng, ...a), uniform(rng, ...b)] as const;
  const [shape, values] = await productOn('wasm', x, y);
  const [expectedShape, expected] = await productOn('cpu', x, y);
  expect(shape).toEqual(expectedShape);
  expect(values).toHaveLength(expected.length);
  const largest = Math.max(0, ...values.map((value, i) => Math.abs(value - expected[i]!)));
  expect(largest).toBeLessThan(1e-5);
});

test('matrices that do not fit are not multiplied', async () => {
  await tf.setBackend('wasm');
  tf.tidy(() => {
    expect(() => tf.matMul(tf.ones([2, 3]), tf.ones([4, 5]))).toThrow('inner shapes (3) and (4)');
  });
});

function gradientOf(kernelName: string, inputs: tf.NamedTensorMap, shapes: tf.NamedAttrMap): Float32Array {
  const attributes = { strides: 1, pad: 'valid', dataFormat: 'NHWC', ...shapes };
  const gradient = tf.engine().runKernel(kernelName, inputs, attributes) as tf.Tensor;
  const values = gradient.dataSync<'float32'>();
  gradient.dispose();
  return values;
}

test('gradients of a convolution without windows are 0', async () => {
  await tf.setBackend('wasm');
  const [x, filter, dy] = [tf.ones([1, 4, 4, 1]), tf.ones([3, 5, 1, 1]), tf.ones([1, 2, 0, 1])];
  const dx = gradientOf('Conv2DBackpropInput', { dy, filter }, { inputShape: x.shape });
  const dfilter = gradientOf('Conv2DBackpropFilter', { x, dy }, { filterShape: filter.shape });
  tf.dispose([x, filter, dy]);
  expect(dx).toEqual(new Float32Array(16));
  expect(dfilter).toEqual(new Float32Array(15));
});

const attend =
  (heads: number): Op =>
  (qkv) =>
    causalAttention(qkv as tf.Tensor3D, heads, causalMask(qkv.shape[1]!));

/** A tile has 64 positions, and a vector 4. */
test.each([
  [1, 1, 1, 4],
  [2, 3, 37, 8],
  [1, 2, 64, 4],
  [2, 1, 131, 12],
])(
  'attention of %i samples, %i heads and %i positions is like that of the CPU',
  async (batch, heads, context, size) => {
    const { shape, values } = uniform(createRng(context), batch, context, 3 * heads * size);
    await expectLikeCpu(attend(heads), [{ shape, values: values.map((value) => 2 * value) }]);
  },
);

test('attention is finite for large scores', async () => {
  const { shape, values } = uniform(createRng(5), 1, 40, 36);
  await expectEqualsCpu(attend(1), [{ shape, values: values.map((value) => 60 * value) }], 1e-3, 'wasm');
});

const loss: Op = (logits, labels, weights) =>
  crossEntropySum(logits as tf.Tensor2D, labels as tf.Tensor1D, weights as tf.Tensor1D);

test('cross-entropy and its gradients are like those of the CPU for 50 shapes', async () => {
  const rng = createRng(1);
  const shapes = Array.from({ length: 46 }, () => [1 + rng.below(70), 2 + rng.below(300)] as const);
  for (const [rows, classes] of [[1, 2], [32, 10], [3, 9001], [70_000, 3], ...shapes] as const) {
    const { shape, values } = uniform(rng, rows, classes);
    const weights = uniform(rng, rows);
    const logits = { shape, values: values.map((value) => 30 * value) };
    const inputs = [logits, integers(rng, classes + 1, rows), { ...weights, values: weights.values.map(Math.abs) }];
    await expectLikeCpu(loss, inputs);
  }
});

test.each([NaN, Infinity])('a logit of %d makes the loss and the gradient of its row NaN', async (lost) => {
  await tf.setBackend('wasm');
  const gradient = tf.tidy(() => {
    const logits = tf.tensor2d([1, 2, lost, 4, 5, 6], [2, 3]);
    return tf.grad((x) => loss(x, tf.tensor1d([0, 1], 'int32'), tf.ones([2])))(logits);
  });
  expect([...(await gradient.data())].map(Number.isNaN)).toEqual([true, true, true, false, false, false]);
  gradient.dispose();
});

const residual: Op = (x, scale) => {
  const [normed, passed] = rmsNormResidual(x, scale, 1e-5);
  return normed.add(passed.mul(0.5));
};

test('RMS normalization and its gradients are like those of the CPU for 50 shapes', async () => {
  const rng = createRng(1);
  const shapes = Array.from({ length: 46 }, () => [1 + rng.below(70), 2 + rng.below(150)]);
  for (const [i, shape] of [[1, 2], [3, 5, 64], [2, 9001], [70_000, 3], ...shapes].entries()) {
    const op: Op = i % 2 === 0 ? residual : (x, scale) => rmsNorm(x, scale, 1e-5);
    await expectLikeCpu(op, [uniform(rng, ...shape), uniform(rng, shape.at(-1)!)]);
  }
});

test('sums of columns are those in double precision up to rounding', async () => {
  await tf.setBackend('wasm');
  const rng = createRng(1);
  for (let run = 0; run < 20; run++) {
    const [rows, columns] = [1 + rng.below(3000), 1 + rng.below(40)];
    const from = rng.below(columns);
    const { values } = uniform(rng, rows, columns);
    const sums = tf.tidy(() => columnSum(tf.tensor(values, [rows, columns]), from).dataSync());
    expect(sums).toHaveLength(columns - from);
    for (const [i, sum] of sums.entries()) {
      const column = Array.from({ length: rows }, (_, row) => values[row * columns + from + i]!);
      const magnitude = column.reduce((all, value) => all + Math.abs(value), 0);
      expect(Math.abs(sum - column.reduce((all, value) => all + value, 0)) / magnitude).toBeLessThan(1e-6);
    }
  }
});

/** Shapes with 1 to 40 columns. */
function shapesOf(rng: Rng): number[][] {
  return Array.from({ length: 60 }, (_, i) => [
    ...Array.from({ length: 1 + (i % 3) }, () => 1 + rng.below(12)),
    1 + rng.below(40),
  ]);
}

test('adding a row to each row has the result of adding single numbers', async () => {
  await tf.setBackend('wasm');
  const rng = createRng(1);
  for (const [i, shape] of [...shapesOf(rng), [0, 5], [3, 0]].entries()) {
    const columns = shape.at(-1)!;
    const [x, row] = [uniform(rng, ...shape), uniform(rng, columns)];
    if (i % 5 === 0) x.values.fill(NaN, 0, 1);
    const y = tf.tidy(() => {
      const [all, one] = [tf.tensor(x.values, shape), tf.tensor(row.values)];
      return (i % 2 === 0 ? tf.add(all, one) : tf.add(one, all)).dataSync<'float32'>();
    });
    expect(y).toEqual(Float32Array.from(x.values, (value, at) => value + row.values[at % columns]!));
  }
});

test('rows are summed in their order', async () => {
  await tf.setBackend('wasm');
  const rng = createRng(1);
  for (const [i, shape] of shapesOf(rng).entries()) {
    const columns = shape.at(-1)!;
    const { values } = uniform(rng, ...shape);
    const others = shape.slice(1).map((_, axis) => (i % 2 === 0 ? axis : axis - shape.length));
    const sum = tf.tidy(() => tf.sum(tf.tensor(values, shape), others, i % 4 === 0));
    const expected = new Float32Array(columns);
    for (const [at, value] of values.entries()) expected[at % columns]! += value;
    expect(sum.shape).toEqual(i % 4 === 0 ? [...others.map(() => 1), columns] : [columns]);
    expect(await sum.data()).toEqual(expected);
    sum.dispose();
  }
});

test('a sum of no rows is 0', async () => {
  await tf.setBackend('wasm');
  const sum = tf.tidy(() => tf.sum(tf.zeros([0, 3]), 0).dataSync());
  expect(sum).toEqual(new Float32Array(3));
});
