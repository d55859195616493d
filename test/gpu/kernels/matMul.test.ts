import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { chooseWebGpuKernels } from '../../../src/gpu/kernels/index.ts';
import { runMatMul } from '../../../src/gpu/kernels/matMul/product.ts';
import { fromHalf, toHalf } from '../../../src/util/float16.ts';
import { createRng, type Rng } from '../../../src/util/rng.ts';
import { webgpuBackend } from '../../../src/gpu/backend.ts';
import { spreadWorkgroups } from '../../../src/gpu/program.ts';
import { expectEqualBits, expectEqualsCpu, expectFiniteDifferences, uniform, type Input } from './compare.ts';
import { ADAPTER_KINDS, expectSameBitsOnAdapters, useAdapter } from './adapters.ts';
import { dispatchesOf } from './dispatches.ts';

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

const ODD = [1, 2, 3, 5, 17, 31, 33, 65];
const FOURS = [4, 8, 16, 32, 36, 64];

/** Multiplies in half precision, also on a device without float16, and disposes the factors. */
async function halfProduct(a: tf.Tensor2D, b: tf.Tensor2D): Promise<Float32Array> {
  const [rows, inner] = a.shape;
  const columns = b.shape[1];
  const product = {
    a: { tensor: a, isTransposed: false, batches: 1 },
    b: { tensor: b, isTransposed: false, batches: 1 },
    batches: 1,
    rows,
    inner,
    columns,
    epilogue: {},
    isHalf: true,
  };
  const result = tf.engine().makeTensorFromTensorInfo(runMatMul(webgpuBackend()!, product, [rows, columns]));
  const values = (await result.data<'float32'>()).slice();
  tf.dispose([a, b, result]);
  return values;
}

describe.each(ADAPTER_KINDS)('on a %s adapter', (kind) => {
  useAdapter(kind);

  // Other code runs for lengths that are multiples of 4. Most of the time is spent in compilation:
  // the gradients of A . B are products with one transposed factor, so these need no cases.
  test.for([
    { shapes: 15, rows: ODD, inner: ODD, columns: ODD },
    { shapes: 15, rows: FOURS, inner: FOURS, columns: FOURS },
    { shapes: 10, rows: ODD, inner: FOURS, columns: ODD },
    { shapes: 10, rows: ODD, inner: ODD, columns: ODD, isTransposed: true },
  ])(
    'products and their gradients equal those of the CPU backend (%#)',
    async ({ shapes, isTransposed = false, ...lengths }) => {
      const rng = createRng(1);
      const oneOf = (sides: number[]): number => sides[rng.below(sides.length)]!;
      for (let i = 0; i < shapes; i++) {
        const product: Case = {
          rows: oneOf(lengths.rows),
          inner: oneOf(lengths.inner),
          columns: oneOf(lengths.columns),
        };
        product.transposeA = product.transposeB = isTransposed;
        if (rng.below(3) === 0) product.aBatch = product.bBatch = [1 + rng.below(3), 1 + rng.below(2)];
        await expectProductEqualsCpu(rng, product);
      }
    },
  );

  test('products with large tiles equal those of the CPU backend', async () => {
    const rng = createRng(2);
    const batches = { aBatch: [16], bBatch: [16] };
    await expectProductEqualsCpu(rng, { rows: 70, inner: 9, columns: 71, ...batches });
    await expectProductEqualsCpu(rng, {
      rows: 70,
      inner: 9,
      columns: 71,
      ...batches,
      transposeA: true,
      transposeB: true,
    });
    await expectProductEqualsCpu(rng, { rows: 68, inner: 20, columns: 72, ...batches });
  });

  test('products with a long inner dimension equal those of the CPU backend', async () => {
    const rng = createRng(3);
    await expectProductEqualsCpu(rng, { rows: 5, inner: 5003, columns: 7 });
    await expectProductEqualsCpu(rng, { rows: 36, inner: 1024, columns: 4 });
  });

  test('a product broadcasts the batch dimensions of its factors', async () => {
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

  test('a product with fused bias and activation equals that of the CPU backend', async () => {
    const rng = createRng(5);
    for (const [columns, activation] of [
      [7, 'linear'],
      [7, 'relu'],
      [8, 'relu'],
      [7, 'elu'],
    ] as const) {
      await expectEqualsCpu(
        (a, b, bias) => tf.fused.matMul({ a, b, bias, activation }),
        [uniform(rng, 10, 9), uniform(rng, 9, columns), uniform(rng, columns)],
      );
    }
  });

  test('the gradients of a product equal finite differences', async () => {
    await expectFiniteDifferences(
      (a, b) => tf.matMul(a, b),
      inputsOf(createRng(6), { rows: 9, inner: 11, columns: 7 }),
    );
  });

  test('products have the same bits in 20 runs', async () => {
    const rng = createRng(7);
    await expectEqualBits((a, b) => tf.matMul(a, b), inputsOf(rng, { rows: 41, inner: 33, columns: 35 }));
    // TensorFlow.js adds the parts of such a product with atomic operations.
    await expectEqualBits((a, b) => tf.matMul(a, b), inputsOf(rng, { rows: 5, inner: 1031, columns: 7 }));
  });

  test('infinity and NaN affect only their own rows of a product', async () => {
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

  test('one dispatch computes a batch of more products than a single dimension of a dispatch may have workgroups', async () => {
    const { device } = webgpuBackend()!;
    const a = tf.tensor(
      Float32Array.from({ length: 22 }, (_, i) => i),
      [11, 1, 2],
    );
    const b = tf.ones([11, 2, 1]);
    const { limits } = device;
    const small = { maxComputeWorkgroupsPerDimension: 4 };
    Object.defineProperty(device, 'limits', { value: small, configurable: true });
    try {
      expect(spreadWorkgroups(webgpuBackend()!, 11)).toEqual([4, 3, 1]);
      expect(dispatchesOf(() => tf.matMul(a, b))).toBe(1);
      const product = tf.matMul(a, b);
      expect([...(await product.data())]).toEqual(Array.from({ length: 11 }, (_, i) => 4 * i + 1));
      tf.dispose([a, b, product]);
    } finally {
      // Dawn in Node has the limits as an own property, so that deleting it would leave none.
      Object.defineProperty(device, 'limits', { value: limits, configurable: true });
    }
  });

  test('chooseWebGpuKernels brings back the stock kernel of products', async () => {
    chooseWebGpuKernels('stock');
    // The stock kernel throws for this many products.
    const [a, b] = [tf.ones([66_000, 1, 2]), tf.ones([66_000, 2, 1])];
    expect(() => tf.matMul(a, b)).toThrow();
    chooseWebGpuKernels('own');
    tf.dispose([a, b]);
  });

  test.each([8, 9])('a half-precision product (%i columns) has float16 factors and float32 sums', async (columns) => {
    const rng = createRng(8);
    const [rows, inner] = [7, 33];
    const [a, b] = [uniform(rng, rows, inner), uniform(rng, inner, columns)];
    const actual = await halfProduct(
      tf.tensor2d(a.values as Float32Array, [rows, inner]),
      tf.tensor2d(b.values as Float32Array, [inner, columns]),
    );
    const [x, y] = [a, b].map(({ values }) => fromHalf(toHalf(values as Float32Array))) as [Float32Array, Float32Array];
    for (const [at, value] of actual.entries()) {
      const [row, column] = [Math.floor(at / columns), at % columns];
      let expected = 0;
      for (let i = 0; i < inner; i++) expected += x[row * inner + i]! * y[i * columns + column]!;
      expect(Math.abs(value - expected)).toBeLessThan(1e-5);
    }
  });

  // WGSL lets implementations convert to the largest number of float16 instead of infinity.
  test('a factor too large for float16 makes its row of the product infinite or NaN', async () => {
    const large = [65_505, 65_520, 1e5, -1e5, 3e38, Number.NaN, Infinity];
    const factors = [65_504, -65_504, 2 ** -14, ...large];
    const ones = tf.ones<tf.Rank.R2>([1, 5]);
    const values = await halfProduct(tf.tensor2d(factors, [factors.length, 1]), ones);
    expect([...values.slice(0, 15)]).toEqual(factors.slice(0, 3).flatMap((factor) => Array<number>(5).fill(factor)));
    for (const value of values.slice(15)) expect(value).not.toSatisfy(Number.isFinite);
  });
});

test('products have the same bits on both kinds of adapters', async () => {
  const rng = createRng(9);
  for (const [rows, inner, columns] of [
    [33, 36, 40],
    [17, 31, 65],
    [70, 1031, 9],
    [4, 5, 3],
    [100, 64, 70],
  ] as const) {
    for (const transposeA of [false, true]) {
      for (const transposeB of [false, true]) {
        const inputs = inputsOf(rng, { rows, inner, columns, transposeA, transposeB });
        await expectSameBitsOnAdapters((a, b) => tf.matMul(a, b, transposeA, transposeB), inputs);
      }
    }
  }
});
