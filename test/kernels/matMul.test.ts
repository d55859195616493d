import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { useKernels } from '../../src/kernels/index.ts';
import { createRng, type Rng } from '../../src/util/rng.ts';
import { webgpuBackend } from '../../src/webgpu/backend.ts';
import { commandCounts } from '../../src/webgpu/commands.ts';
import { expectEqualBits, expectEqualsCpu, expectFiniteDifferences, uniform, type Input } from './compare.ts';

interface Case {
  aBatch?: number[];
  bBatch?: number[];
  rows: number;
  inner: number;
  columns: number;
  transposeA?: boolean;
  transposeB?: boolean;
}

function inputsOf(rng: Rng, { aBatch = [], bBatch = [], rows, inner, columns, transposeA, transposeB }: Case): Input[] {
  return [
    uniform(rng, ...aBatch, ...(transposeA ? [inner, rows] : [rows, inner])),
    uniform(rng, ...bBatch, ...(transposeB ? [columns, inner] : [inner, columns])),
  ];
}

async function expectProductEqualsCpu(rng: Rng, product: Case): Promise<void> {
  const { transposeA = false, transposeB = false } = product;
  await expectEqualsCpu((a, b) => tf.matMul(a, b, transposeA, transposeB), inputsOf(rng, product));
}

test('products and their gradients equal those of the CPU for 50 shapes', async () => {
  const rng = createRng(1);
  const lengths = [1, 2, 3, 4, 5, 8, 16, 17, 31, 32, 33, 63, 64, 65, 96, 130];
  const length = (): number => lengths[rng.below(lengths.length)]!;
  for (let i = 0; i < 50; i++) {
    const product: Case = { rows: length(), inner: length(), columns: length() };
    product.transposeA = rng.below(2) === 0;
    product.transposeB = rng.below(2) === 0;
    if (rng.below(3) === 0) product.aBatch = product.bBatch = [1 + rng.below(3), 1 + rng.below(2)];
    await expectProductEqualsCpu(rng, product);
  }
});

test.for([
  { rows: 512, inner: 20, columns: 516 },
  { rows: 513, inner: 7, columns: 515 },
  { rows: 70, inner: 9, columns: 71, aBatch: [16], bBatch: [16] },
])('products with large tiles equal those of the CPU: $rows x $inner x $columns', async (product) => {
  const rng = createRng(2);
  await expectProductEqualsCpu(rng, product);
  await expectProductEqualsCpu(rng, { ...product, transposeA: true, transposeB: true });
});

test('products with a long inner length equal those of the CPU', async () => {
  const rng = createRng(3);
  for (const inner of [1024, 1025, 5003]) {
    await expectProductEqualsCpu(rng, { rows: 5, inner, columns: 8, transposeA: true });
    await expectProductEqualsCpu(rng, { rows: 34, inner, columns: 3, transposeB: true });
  }
});

test('batches are broadcast', async () => {
  const rng = createRng(4);
  const lengths = { rows: 5, inner: 6, columns: 7 };
  // TensorFlow.js's gradient of a broadcast product has the shape of the result.
  for (const [aBatch, bBatch] of [
    [[3], []],
    [[], [3]],
    [[2, 3], [3]],
    [
      [1, 3],
      [2, 3],
    ],
    [
      [2, 3],
      [1, 1],
    ],
  ] as [number[], number[]][]) {
    const [a, b] = inputsOf(rng, { ...lengths, aBatch, bBatch }) as [Input, Input];
    await expectEqualsCpu(
      (weight) => tf.matMul(tf.tensor(a.values, a.shape), tf.tensor(b.values, b.shape)).mul(weight),
      [uniform(rng, 1)],
    );
  }
});

test('fused bias and activation equal those of the CPU', async () => {
  const rng = createRng(5);
  for (const columns of [6, 8]) {
    for (const activation of ['linear', 'relu', 'elu', 'sigmoid'] as const) {
      await expectEqualsCpu(
        (a, b, bias) => tf.fused.matMul({ a, b, bias, activation }),
        [uniform(rng, 10, 9), uniform(rng, 9, columns), uniform(rng, columns)],
      );
    }
  }
});

test('gradients of a product agree with finite differences', async () => {
  await expectFiniteDifferences(
    (a, b) => tf.matMul(a, b, false, true),
    inputsOf(createRng(6), { rows: 9, inner: 11, columns: 6, transposeB: true }),
  );
});

test('products have equal bits in 20 runs', async () => {
  const rng = createRng(7);
  await expectEqualBits((a, b) => tf.matMul(a, b), inputsOf(rng, { rows: 40, inner: 33, columns: 36 }));
  // TensorFlow.js adds the parts of such a product with atomic operations.
  await expectEqualBits((a, b) => tf.matMul(a, b), inputsOf(rng, { rows: 20, inner: 2500, columns: 20 }));
});

test('infinity and NaN stay in their rows', async () => {
  const a = tf.tensor2d([
    [1, Infinity],
    [2, 3],
    [NaN, 1],
  ]);
  const b = tf.tensor2d([
    [1, 2, 3, 4, 5],
    [6, 7, 8, 9, 10],
  ]);
  const product = tf.matMul(a, b);
  const values = [...(await product.data())];
  expect(values.slice(0, 5)).toEqual(Array(5).fill(Infinity));
  expect(values.slice(5, 10)).toEqual([20, 25, 30, 35, 40]);
  expect(values.slice(10)).toEqual(Array(5).fill(NaN));
  tf.dispose([a, b, product]);
});

test('more than 65 535 products run in one dispatch', async () => {
  const counts = commandCounts(webgpuBackend()!.device)!;
  const a = tf.ones([66_000, 1, 2]);
  const b = tf.ones([66_000, 2, 1]);
  await Promise.all([a.data(), b.data()]);
  const before = counts.dispatches;
  const product = tf.matMul(a, b);
  expect(counts.dispatches - before).toBe(1);
  expect((await product.data()).every((value) => value === 2)).toBe(true);
  tf.dispose([a, b, product]);
});

test('stock kernels are restored', async () => {
  useKernels('stock');
  // The stock kernel throws for this many products.
  const [a, b] = [tf.ones([66_000, 1, 2]), tf.ones([66_000, 2, 1])];
  expect(() => tf.matMul(a, b)).toThrow();
  useKernels('own');
  tf.dispose([a, b]);
});
