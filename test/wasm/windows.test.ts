/** Gradients of pooling and of depthwise convolutions on WebAssembly have the bits of others. */
import * as tf from '@tensorflow/tfjs';
import { setWasmPaths } from '@tensorflow/tfjs-backend-wasm';
import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { switchToWasmBackend } from '../../src/engine/device/wasmBackend.ts';
import { GRADIENTS_IN_JAVASCRIPT } from '../../src/engine/device/wasmWindows.ts';
import { createRng } from '../../src/util/rng.ts';
import { wasmBackend } from '../../src/wasm/backend.ts';

/** TensorFlow.js's kernels of means, before this project's replace them. */
const stock = new Map(['AvgPoolGrad', 'AvgPool3DGrad'].map((name) => [name, tf.getKernel(name, 'wasm').kernelFunc]));

beforeAll(async () => {
  setWasmPaths('node_modules/@tensorflow/tfjs-backend-wasm/dist/');
  expect(await switchToWasmBackend()).toBe(true);
});

interface Windows {
  batch: number;
  channels: number;
  multiplier: number;
  size: number[];
  window: number[];
  strides: number[];
  dilations: number[];
  pad: 'same' | 'valid';
  seed: number;
}

const sides = (axes: number, max: number): fc.Arbitrary<number[]> =>
  fc.array(fc.integer({ min: 1, max }), { minLength: axes, maxLength: axes });

const windows = (axes: number): fc.Arbitrary<Windows> =>
  fc
    .record({
      batch: fc.integer({ min: 0, max: 3 }),
      channels: fc.integer({ min: 0, max: 9 }),
      multiplier: fc.integer({ min: 1, max: 5 }),
      size: sides(axes, 9),
      window: sides(axes, 4),
      strides: sides(axes, 4),
      dilations: sides(axes, 3),
      pad: fc.constantFrom('same', 'valid'),
      seed: fc.nat(),
    })
    .map((all) => (all.pad === 'same' ? all : { ...all, ...fitting(all) }));

/** Without padding, TensorFlow.js has no windows that are larger than the input. */
function fitting({ size, window, dilations }: Windows): Pick<Windows, 'window' | 'dilations'> {
  const fits = window.map((side, i) => (side - 1) * dilations[i]! < size[i]!);
  const ones = (sizes: number[]): number[] => sizes.map((side, i) => (fits[i] ? side : 1));
  return { window: ones(window), dilations: ones(dilations) };
}

const lengthOf = ({ size, window, strides, dilations, pad }: Windows, i: number): number =>
  Math.ceil((pad === 'same' ? size[i]! : size[i]! - (window[i]! - 1) * dilations[i]!) / strides[i]!);

const outputOf = (all: Windows, channels: number): number[] => [
  all.batch,
  ...all.size.map((_, i) => lengthOf(all, i)),
  channels,
];

/** Returns a tensor, whose values are whole numbers, NaN and infinities, or else any. */
function tensorOf(shape: number[], seed: number, kind: 'any' | 'whole' | 'special'): tf.Tensor {
  const rng = createRng(seed);
  const special = [-2, -1, -1, -0, 0, 1, 1, 2, NaN, -Infinity, -Infinity, Infinity];
  const next = {
    any: () => 2 * rng.next() - 1,
    whole: () => rng.below(9) - 4,
    special: () => special[rng.below(special.length)]!,
  };
  return tf.tensor(Float32Array.from({ length: tf.util.sizeFromShape(shape) }, next[kind]), shape);
}

type Inputs = Record<string, tf.Tensor>;

function valuesOf(name: string, inputs: Inputs, attributes: object): Float32Array {
  const result = tf.engine().runKernel(name, inputs, attributes as tf.NamedAttrMap) as tf.Tensor;
  // The CPU backend returns more values than an empty tensor has.
  const values = result.dataSync<'float32'>().slice(0, result.size);
  result.dispose();
  return values;
}

/** Checks that the kernel's values are those that `other` computes, and that no memory leaks. */
function expectSame(name: string, inputs: Inputs, attributes: object, other: () => tf.TensorInfo): void {
  const backend = wasmBackend()!;
  const before = backend.numDataIds();
  const values = valuesOf(name, inputs, attributes);
  const { dataId } = other();
  const expected = (backend.readSync(dataId) as Float32Array).slice();
  backend.disposeData(dataId);
  tf.dispose(inputs);
  expect(values).toEqual(expected);
  expect(backend.numDataIds()).toBe(before - Object.keys(inputs).length);
}

function expectLikeJavaScript(name: string, inputs: Inputs, attributes: object): void {
  const kernel = GRADIENTS_IN_JAVASCRIPT[name]!;
  expectSame(name, inputs, attributes, () => kernel(inputs, attributes as never, wasmBackend()!));
}

const poolAttributes = ({ window, strides, pad }: Windows): object => ({ filterSize: window, strides, pad });

const withoutDilation = (all: Windows): Windows => ({ ...all, dilations: all.size.map(() => 1) });

test.each([
  ['MaxPoolGrad', 2],
  ['MaxPool3DGrad', 3],
])('%s has the bits of the kernel in JavaScript', async (name, axes) => {
  await tf.setBackend('wasm');
  fc.assert(
    fc.property(windows(axes).map(withoutDilation), fc.constantFrom('any', 'special'), (all, kind) => {
      const input = tensorOf([all.batch, ...all.size, all.channels], all.seed, kind);
      const dy = tensorOf(outputOf(all, all.channels), all.seed + 1, 'any');
      expectLikeJavaScript(name, { input, dy }, poolAttributes(all));
    }),
    { numRuns: 300 },
  );
});

test('ties, NaN and infinities have the gradients of maxima that the CPU backend computes', async () => {
  await fc.assert(
    fc.asyncProperty(windows(2).map(withoutDilation), async (all) => {
      const results: Float32Array[] = [];
      for (const backend of ['wasm', 'cpu']) {
        await tf.setBackend(backend);
        const input = tensorOf([all.batch, ...all.size, all.channels], all.seed, 'special');
        // Sums of whole numbers have the same bits in any order.
        const dy = tensorOf(outputOf(all, all.channels), all.seed + 1, 'whole');
        results.push(valuesOf('MaxPoolGrad', { input, dy }, poolAttributes(all)));
        tf.dispose([input, dy]);
      }
      expect(results[0]).toEqual(results[1]);
    }),
    { numRuns: 300 },
  );
});

test.each([
  ['AvgPoolGrad', 2],
  ['AvgPool3DGrad', 3],
])("%s has the bits of TensorFlow.js's kernel", async (name, axes) => {
  await tf.setBackend('wasm');
  fc.assert(
    fc.property(windows(axes).map(withoutDilation), (all) => {
      const input = tf.zeros([all.batch, ...all.size, all.channels]);
      const dy = tensorOf(outputOf(all, all.channels), all.seed, 'any');
      const attributes = poolAttributes(all) as tf.NamedAttrMap;
      expectSame(name, { input, dy }, attributes, () => {
        const params = { inputs: { input, dy }, attrs: attributes, backend: wasmBackend()! };
        return stock.get(name)!(params) as tf.TensorInfo;
      });
    }),
    { numRuns: 300 },
  );
});

test.each(['filter', 'input'])(
  'the gradient of the %s of a depthwise convolution has the bits of JavaScript',
  async (of) => {
    await tf.setBackend('wasm');
    fc.assert(
      fc.property(windows(2), (all) => {
        const { channels, multiplier, strides, dilations, pad, seed } = all;
        const x = tensorOf([all.batch, ...all.size, channels], seed, 'any');
        const filter = tensorOf([...all.window, channels, multiplier], seed + 1, 'any');
        const dy = tensorOf(outputOf(all, channels * multiplier), seed + 2, 'any');
        const attributes = { strides, dilations, pad, filterShape: filter.shape, inputShape: x.shape };
        (of === 'filter' ? filter : x).dispose();
        if (of === 'filter') expectLikeJavaScript('DepthwiseConv2dNativeBackpropFilter', { x, dy }, attributes);
        else expectLikeJavaScript('DepthwiseConv2dNativeBackpropInput', { dy, filter }, attributes);
      }),
      { numRuns: 300 },
    );
  },
);
