/** Tests of Keras files with other number types, state that is no weight, and nested models. */
import type { Group } from 'h5wasm';
import { describe, expect, test } from 'vitest';
import { matchWeightNames } from '../../../src/formats/weights/matchWeights.ts';
import { readKeras } from '../../../src/formats/weights/keras.ts';
import { kerasPaths } from '../../../src/formats/weights/kerasPaths.ts';
import type { KerasTopology } from '../../../src/formats/weights/namedTensor.ts';
import { openWeights } from '../../../src/formats/weights/weightsFile.ts';
import { errorOf } from '../../errorOf.ts';

type Values = Float32Array | Float64Array | Uint32Array | Int32Array | Int8Array;

/** The datatype of a float32 in an HDF5 file, and those of other floats in as many bytes. */
const FLOAT32 = [0x11, 0x20, 0x1f, 0, 4, 0, 0, 0, 0, 0, 0x20, 0, 0x17, 8, 0, 0x17, 0x7f, 0, 0, 0];
const BIG_FLOAT32 = FLOAT32.with(1, 0x21);
const FLOAT16 = [0x11, 0x20, 0x0f, 0, 2, 0, 0, 0, 0, 0, 0x10, 0, 0x0a, 5, 0, 0x0a, 0x0f, 0, 0, 0];

/** Writes an HDF5 file whose headers have no checksums, as h5py writes it. */
async function hdf5(
  datasets: Readonly<Record<string, Values>>,
  {
    root = {},
    each = {},
    grown,
  }: { root?: Record<string, string>; each?: Record<string, string>; grown?: number } = {},
): Promise<Uint8Array<ArrayBuffer>> {
  const { File, ready } = await import('h5wasm');
  const { FS } = await ready;
  const file = new File('/made.h5', 'w', { libver: ['earliest', 'v200'] });
  for (const [key, text] of Object.entries(root)) file.create_attribute(key, text);
  for (const [path, data] of Object.entries(datasets)) {
    const steps = path.split('/');
    const name = steps.pop()!;
    let group: Group = file;
    for (const step of steps)
      group = group.keys().includes(step) ? (group.get(step) as Group) : group.create_group(step);
    const growing = grown === undefined ? {} : { chunks: [1], maxshape: [null] };
    const dataset = group.create_dataset({ name, data, shape: [data.length], ...growing });
    if (grown !== undefined) dataset.resize([grown]);
    for (const [key, text] of Object.entries(each)) dataset.create_attribute(key, text);
  }
  file.close();
  const bytes = new Uint8Array(FS.readFile('/made.h5'));
  FS.unlink('/made.h5');
  return bytes;
}

/** Returns a copy of a file whose first float32 dataset has another datatype. */
function retyped(bytes: Uint8Array<ArrayBuffer>, type: readonly number[]): Uint8Array<ArrayBuffer> {
  const copy = bytes.slice();
  copy.set(type, Buffer.from(bytes).indexOf(Buffer.from(FLOAT32)));
  return copy;
}

const open = (bytes: Uint8Array<ArrayBuffer>, name = 'mine.weights.h5') => openWeights(name, new Blob([bytes]));

const KERNEL = 'layers/dense/vars/0';
const dense: KerasTopology = {
  class_name: 'Sequential',
  config: { layers: [{ class_name: 'Dense', config: { name: 'dense1' } }] },
};
const target = { names: ['dense1/kernel'], shapes: [[2]], topology: dense };

const layer = (kind: string, name: string, layers?: KerasTopology['config']['layers']) => ({
  class_name: kind,
  config: { name, ...(layers && { layers }) },
});

describe('number types', () => {
  test('float64 weights are rounded to float32, and a note says so', async () => {
    const file = await open(await hdf5({ [KERNEL]: Float64Array.of(0.1, -2) }));
    expect([(await file.read(KERNEL)).values, file.notes]).toEqual([
      Float32Array.of(0.1, -2),
      [{ kind: 'weights-rounded', count: 1, name: KERNEL, example: 'float64' }],
    ]);
  });

  test('float16 weights are converted', async () => {
    const bits = new Float32Array(Uint16Array.of(0x3c00, 0xc000, 0x0001, 0x7bff).buffer);
    // The file has room for four numbers of four bytes, and their datatype has two.
    const bytes = await hdf5({ [KERNEL]: Float32Array.of(...bits, 0, 0) });
    const file = await open(retyped(bytes, FLOAT16));
    expect([(await file.read(KERNEL)).values, file.notes]).toEqual([Float32Array.of(1, -2, 2 ** -24, 65504), []]);
  });

  test('bfloat16 weights are converted; Keras marks them by an attribute', async () => {
    const bits = new Float32Array(Uint16Array.of(0x3f80, 0xc000).buffer);
    const bytes = await hdf5({ [KERNEL]: Float32Array.of(...bits, 0) }, { each: { dtype: 'bfloat16' } });
    const file = await open(retyped(bytes, FLOAT16));
    expect((await file.read(KERNEL)).values).toEqual(Float32Array.of(1, -2));
  });

  test('big-endian weights are converted', async () => {
    const swapped = new Uint8Array(Float32Array.of(1.5, -2).buffer);
    for (let at = 0; at < swapped.length; at += 4) swapped.subarray(at, at + 4).reverse();
    const bytes = await hdf5({ [KERNEL]: Float32Array.of(0.123, 0.456) });
    bytes.set(swapped, Buffer.from(bytes).indexOf(Buffer.from(Float32Array.of(0.123, 0.456).buffer)));
    expect((await (await open(retyped(bytes, BIG_FLOAT32))).read(KERNEL)).values).toEqual(Float32Array.of(1.5, -2));
  });

  test('a float64 weight that float32 cannot represent is rejected by name', async () => {
    const error = await errorOf(open(await hdf5({ [KERNEL]: Float64Array.of(1, -1e300) })));
    expect(error.message).toMatch(/^mine\.weights\.h5 has -1e\+300 in layers\/dense\/vars\/0, which is too large for/);
  });

  test('integer weights are rejected by name if a model needs them', async () => {
    const file = await open(await hdf5({ [KERNEL]: Int8Array.of(1, 2), 'layers/dense/vars/1': Float32Array.of(1) }));
    expect(() => matchWeightNames(file, target)).toThrow(
      /"dense1\/kernel" \(layers\/dense\/vars\/0\) of type int8, but weights must be one of float16, .* Save the model/,
    );
  });
});

describe('state in a file that is not a weight', () => {
  test('is left out if it belongs to random layers, counters or an optimizer, and notes say so', async () => {
    const file = await open(
      await hdf5({
        [KERNEL]: Float32Array.of(1, 2),
        'layers/dropout/seed_generator/vars/0': Uint32Array.of(1, 2),
        'layers/sequential/layers/random_flip/seed_generator/vars/0': Int32Array.of(1, 2),
        'optimizer/vars/0': Int32Array.of(9),
        'optimizer/vars/1': Float32Array.of(0.1),
        'optimizer/vars/2': Float32Array.of(0.1),
      }),
    );
    const kind = 'weights-left-out';
    expect([matchWeightNames(file, target), file.notes]).toEqual([
      [KERNEL],
      [
        { kind, count: 1, name: 'layers/dropout/seed_generator/vars/0', example: 'uint32' },
        { kind, count: 1, name: 'layers/sequential/layers/random_flip/seed_generator/vars/0', example: 'int32' },
        { kind, count: 3, name: 'optimizer', example: '' },
      ],
    ]);
  });

  test.each(['normalization', 'sequential/layers/normalization_1'])(
    'is left out if it is the mean and variance of %s, and a note says so',
    async (place) => {
      const vars = `layers/${place}/vars`;
      const file = await open(
        await hdf5({
          [KERNEL]: Float32Array.of(1, 2),
          [`${vars}/0`]: Float32Array.of(5, 6),
          [`${vars}/1`]: Float32Array.of(1, 1),
          [`${vars}/2`]: Int32Array.of(0),
        }),
      );
      expect([matchWeightNames(file, target), file.notes]).toEqual([
        [KERNEL],
        [
          { kind: 'weights-left-out', count: 1, name: `${vars}/2`, example: 'int32' },
          { kind: 'weights-normalization', count: 2, name: `layers/${place}`, example: '' },
        ],
      ]);
    },
  );

  test('is kept in a model of the library if it is the mean and variance of a Normalization', async () => {
    const bytes = await hdf5({ 'layers/normalization/vars/0': Float32Array.of(5) });
    const { tensors } = await readKeras('mine', bytes);
    expect(tensors.map(({ name }) => name)).toEqual(['layers/normalization/vars/0']);
  });
});

describe('a file with a different layout', () => {
  test.each([
    ['model_weights', { 'model_weights/dense/dense/kernel:0': Float32Array.of(1) }, {}],
    ['layer_names', { 'dense/dense/kernel:0': Float32Array.of(1) }, { layer_names: 'dense' }],
    ['chunks of layer_names', { 'dense/dense/kernel:0': Float32Array.of(1) }, { layer_names0: 'dense' }],
  ])('is rejected with advice if it is of Keras 2, with %s', async (_, datasets, root) => {
    const error = await errorOf(open(await hdf5(datasets, { root }), 'full.h5'));
    expect(error.message).toBe(
      "full.h5 has the layout of Keras 2, but the layout of Keras 3 is needed. Load the model in Keras 3, and save its weights with model.save_weights('full.weights.h5').",
    );
  });

  test('is rejected with advice, and with the names that it has, if it has no layers', async () => {
    const error = await errorOf(open(await hdf5({ 'head/vars/0': Float32Array.of(1) })));
    expect(error.message).toMatch(
      /^mine\.weights\.h5 does not contain layers of a Sequential or Functional model. It contains head\./,
    );
  });
});

test('arrays are not read if together they are much larger than their file', async () => {
  const arrays = Object.fromEntries([0, 1, 2].map((i) => [`layers/dense/vars/${i}`, Float32Array.of(1, 2)]));
  const bytes = await hdf5(arrays, { grown: 50_000_000 });
  expect(bytes.length).toBeLessThan(100_000);
  expect((await errorOf(open(bytes))).message).toMatch(/mine\.weights\.h5 .*: its arrays would have 600000000 bytes/);
});

describe('paths of Keras 3', () => {
  test('are given to every layer of a job', () => {
    const kinds = ['Dense', 'Conv2D', 'DepthwiseConv2D', 'LayerNormalization', 'Conv2D'];
    const layers = kinds.map((kind, i) => layer(kind, `l${i}`));
    const names = kinds.map((_, i) => `l${i}/w`);
    expect([...kerasPaths({ config: { layers } }, names).values()]).toEqual([
      'layers/dense/vars/0',
      'layers/conv2d/vars/0',
      'layers/depthwise_conv2d/vars/0',
      'layers/layer_normalization/vars/0',
      'layers/conv2d_1/vars/0',
    ]);
  });

  test('number the layers of a nested model separately', () => {
    const layers = [
      layer('Dense', 'a'),
      layer('Sequential', 'b', [layer('Dense', 'c'), layer('Model', 'd', [layer('Dense', 'e')])]),
      layer('Sequential', 'f', [layer('Dense', 'g')]),
    ];
    const names = ['a', 'c', 'e', 'g'].map((name) => `${name}/kernel`);
    expect([...kerasPaths({ config: { layers } }, names).values()]).toEqual([
      'layers/dense/vars/0',
      'layers/sequential/layers/dense/vars/0',
      'layers/sequential/layers/functional/layers/dense/vars/0',
      'layers/sequential_1/layers/dense/vars/0',
    ]);
  });
});
