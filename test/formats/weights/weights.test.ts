/**
 * Tests of files of weights. The fixtures in this folder were written by safetensors 0.8.0 for
 * Python and by Keras 3.15.1.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import * as tf from '@tensorflow/tfjs';
import fc from 'fast-check';
import { unzipSync } from 'fflate';
import { describe, expect, test } from 'vitest';
import { buildJobModel, type JobModel } from '../../../src/jobs/index.ts';
import { matchWeightNames, readMatchedWeights } from '../../../src/formats/weights/matchWeights.ts';
import { digestsOfTensors, withTensorDigests } from '../../../src/formats/weights/namedTensor.ts';
import {
  encodeWeights,
  openWeights,
  type NamedTensor,
  type KerasTopology,
} from '../../../src/formats/weights/weightsFile.ts';
import {
  sortTensorsByName,
  openSafetensors,
  readSafetensors,
  streamSafetensors,
  writeSafetensors,
} from '../../../src/formats/weights/safetensors.ts';
import { WEIGHTS_FORMATS } from '../../../src/spec/modelFile.ts';
import { DataError, UsageError } from '../../../src/util/errors.ts';
import { createRng } from '../../../src/util/rng.ts';

const MODELS = ['mlp', 'cnn'] as const;

const fixture = (name: string): Uint8Array<ArrayBuffer> =>
  new Uint8Array(readFileSync(path.join(import.meta.dirname, name)));

const tensor = (name: string, shape: number[], values: number[]): NamedTensor => ({
  name,
  shape,
  values: Float32Array.from(values),
});

/** The tensors in the file that Python wrote. */
const SMALL = [
  tensor('dense1/kernel', [2, 3], [1.5, -2, 0.25, 3, 4, -0.5]),
  tensor('dense1/bias', [2], [7, -8]),
  tensor('scale', [], [9]),
  tensor('empty', [0, 3], []),
];

/** Returns the topology of a Sequential model with dense layers of these names. */
const dense = (...names: string[]): KerasTopology => ({
  class_name: 'Sequential',
  config: { layers: names.map((name) => ({ class_name: 'Dense', config: { name } })) },
});

function build(model: 'mlp' | 'cnn', seed: number): JobModel {
  return buildJobModel({ model, hidden: 5, seed }, { inputShape: [28, 28, 1], classes: 10 });
}

const tensorsOf = ({ names, variables }: JobModel): NamedTensor[] =>
  variables.map((variable, i) => ({
    name: names[i]!,
    shape: variable.shape,
    values: variable.dataSync<'float32'>() as Float32Array<ArrayBuffer>,
  }));

const shapesOf = ({ variables }: JobModel) => variables.map(({ shape }) => shape);

function outputsOf(model: { logits(inputs: tf.Tensor): tf.Tensor }): number[] {
  const rng = createRng(3);
  const inputs = Float32Array.from({ length: 2 * 784 }, () => rng.next());
  return tf.tidy(() => Array.from(model.logits(tf.tensor(inputs, [2, 28, 28, 1])).dataSync()));
}

/** Returns a safetensors file. */
const safetensors = (header: unknown, data = new Uint8Array(8)): Uint8Array<ArrayBuffer> => {
  const text = new TextEncoder().encode(typeof header === 'string' ? header : JSON.stringify(header));
  const length = new Uint8Array(new BigUint64Array([BigInt(text.length)]).buffer);
  return Uint8Array.from([...length, ...text, ...data]);
};
const F32 = (begin: number, end: number, shape: number[]) => ({
  dtype: 'F32',
  shape,
  data_offsets: [begin, end],
});

const all = async <T>(values: AsyncIterable<T>): Promise<T[]> => {
  const found: T[] = [];
  for await (const value of values) found.push(value);
  return found;
};

/** Sorts tensors by name, because their order in a file may differ from that in the model. */
const sorted = (tensors: readonly NamedTensor[]): NamedTensor[] =>
  [...tensors].sort((a, b) => (a.name < b.name ? -1 : 1));

const refusalOf = async (bytes: Uint8Array<ArrayBuffer>): Promise<string> => {
  const error: unknown = await openWeights('a file', new Blob([bytes])).catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(DataError);
  return (error as DataError).message;
};

describe.each(WEIGHTS_FORMATS)('the format %s', (format) => {
  test.each(MODELS)('restores the model %s, which then has the same outputs bit for bit', async (name) => {
    const model = build(name, 1);
    const expected = outputsOf(model);
    const bytes = await encodeWeights(format, tensorsOf(model), model.topology, { note: 'é' });
    const again = build(name, 2);
    expect(outputsOf(again)).not.toEqual(expected);
    const file = await openWeights('model', new Blob([bytes]));
    const values = await all(readMatchedWeights(file, { ...again, shapes: shapesOf(again) }));
    for (const [i, variable] of again.variables.entries()) variable.assign(tf.tensor(values[i]!, variable.shape));
    expect(outputsOf(again)).toEqual(expected);
    expect(file.format).toBe(format);
    model.dispose();
    again.dispose();
  });

  test('rejects a file that is truncated at any byte', async () => {
    const bytes = await encodeWeights(format, SMALL.slice(0, 2), dense('dense1'), {});
    // For short files, every length is tested. HDF5 files have thousands of bytes, and most of them
    // are zeros.
    const step = bytes.length > 2000 ? 53 : 1;
    for (let end = 0; end < bytes.length; end += step) expect(await refusalOf(bytes.slice(0, end))).not.toBe('');
    expect(await refusalOf(bytes.slice(0, -1))).not.toBe('');
  }, 60_000);

  test('rejects a file with a changed weight', async () => {
    const values = SMALL[0]!;
    const bytes = await encodeWeights(format, [values], dense('dense1'), {});
    const at = Buffer.from(bytes).indexOf(Buffer.from(values.values.buffer));
    expect(at).toBeGreaterThan(0);
    bytes[at + 2]! ^= 1;
    expect(await refusalOf(bytes)).toMatch(/a file is damaged: the weights ".+" differ from those that were saved/);
  });

  test('rejects a file for a different model with the name of a missing, superfluous or wrongly shaped tensor', async () => {
    const model = build('mlp', 1);
    const others = { ...build('cnn', 1), shapes: shapesOf(model) };
    const bytes = await encodeWeights(format, tensorsOf(model), model.topology, {});
    const file = await openWeights('mine', new Blob([bytes]));
    expect(() => matchWeightNames(file, others)).toThrow(
      /^mine does not contain "conv1\/kernel".* The file contains .*\. Choose the model/,
    );
    const shapes = shapesOf(model).map((shape) => (shape.length === 1 ? shape : [...shape].reverse()));
    expect(() => matchWeightNames(file, { ...model, shapes })).toThrow(
      /mine has "dense1\/kernel".* of shape \[784, 5\], but in this model its shape is \[5, 784\]/,
    );
    const less = { names: model.names.slice(0, 3), shapes: shapesOf(model), topology: model.topology };
    expect(() => matchWeightNames(file, less)).toThrow(/mine contains ".+", but this model has no such variable/);
    model.dispose();
    others.dispose();
  });
});

// Keras is left out, because HDF5 files contain the time of writing.
test.each(['safetensors', 'tfjs'] as const)('%s writes the same bytes for the same weights', async (format) => {
  const model = build('cnn', 1);
  const write = () => encodeWeights(format, tensorsOf(model), model.topology, {});
  expect(await write()).toEqual(await write());
  model.dispose();
});

async function* oneByOne(tensors: readonly NamedTensor[]): AsyncGenerator<NamedTensor> {
  for (const each of tensors) yield await Promise.resolve(each);
}

/** Writes the tensors of {@link SMALL} one by one, as a writer that has only `tensors`. */
const streamed = async (tensors: readonly NamedTensor[], about = {}): Promise<Blob> => {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for await (const part of streamSafetensors(SMALL, about, oneByOne(tensors))) parts.push(part);
  return new Blob(parts);
};

describe('safetensors', () => {
  test('writes the same bytes as the Python library', () => {
    expect(writeSafetensors(SMALL, { 'made by': 'Python – ü' })).toEqual(fixture('python.safetensors'));
  });

  test('reads a file of the Python library', () => {
    const { tensors, about } = readSafetensors('python.safetensors', fixture('python.safetensors'));
    expect(sorted(tensors)).toEqual(sorted(SMALL));
    expect(about).toEqual({ 'made by': 'Python – ü' });
  });

  test('reads arbitrary tensors unchanged', () => {
    const shapes = fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 4 });
    const any = fc.uniqueArray(fc.tuple(fc.string(), shapes), { selector: ([name]) => name, maxLength: 6 });
    fc.assert(
      fc.property(any, fc.float(), (parts, value) => {
        const tensors = parts
          .filter(([name]) => name !== '__metadata__' && name !== '__proto__')
          .map(([name, shape]) => {
            const size = shape.reduce((product, side) => product * side, 1);
            return { name, shape, values: new Float32Array(size).fill(value) };
          });
        const read = readSafetensors('any', writeSafetensors(tensors, {}));
        expect(sorted(read.tensors)).toEqual(sorted(tensors));
      }),
    );
  });

  test('writes the same bytes whether tensors are written one by one or all together', async () => {
    const about = withTensorDigests({ 'made by': 'stages' }, digestsOfTensors(SMALL));
    const file = await streamed(sortTensorsByName(SMALL), about);
    expect(new Uint8Array(await file.arrayBuffer())).toEqual(writeSafetensors(SMALL, about));
  });

  test("rejects a tensor that is not the file's next one, and the end of a file that lacks tensors", async () => {
    const [first, second, ...rest] = sortTensorsByName(SMALL) as [NamedTensor, NamedTensor, ...NamedTensor[]];
    await expect(streamed([second, first, ...rest])).rejects.toThrow(UsageError);
    await expect(streamed([first, second])).rejects.toThrow(
      /The next tensor of the file must be "empty" with 0 values, but it is the end/,
    );
    await expect(streamed([first, second, ...rest, first])).rejects.toThrow(/must be the end, but it is "/);
    const short = { ...first, values: first.values.slice(1) };
    await expect(streamed([short, second, ...rest])).rejects.toThrow(UsageError);
  });

  test('writes a tensor in several parts', async () => {
    const parts = sorted(SMALL).flatMap((whole) =>
      whole.values.length < 2
        ? [whole]
        : [
            { ...whole, values: whole.values.slice(0, 1) },
            { ...whole, values: whole.values.slice(1) },
          ],
    );
    expect(new Uint8Array(await (await streamed(parts)).arrayBuffer())).toEqual(writeSafetensors(SMALL, {}));
  });

  test('reads a single tensor without reading bytes of other tensors', async () => {
    const bytes = writeSafetensors(SMALL, withTensorDigests({}, digestsOfTensors(SMALL)));
    const kernel = SMALL[0]!;
    // Bytes of another tensor are damaged, which a reader of this tensor must not see.
    const at = Buffer.from(bytes).indexOf(Buffer.from(SMALL[1]!.values.buffer));
    bytes[at]! ^= 1;
    const reads: number[] = [];
    const blob = new Blob([bytes]);
    const slice = blob.slice.bind(blob);
    blob.slice = (from = 0, to = 0) => {
      reads.push(to - from);
      return slice(from, to);
    };
    const file = await openSafetensors('a file', blob);
    expect(sorted(file.entries as NamedTensor[]).map(({ name, shape }) => ({ name, shape }))).toEqual(
      sorted(SMALL).map(({ name, shape }) => ({ name, shape })),
    );
    reads.length = 0;
    expect(await file.read(kernel.name)).toEqual(kernel);
    expect(reads).toEqual([kernel.values.byteLength]);
    await expect(file.read(SMALL[1]!.name)).rejects.toThrow('a file is damaged');
    await expect(file.read('nobody')).rejects.toThrow('does not contain "nobody"');
  });

  test('reads the header of a file from Python, and rejects a truncated file', async () => {
    const bytes = fixture('python.safetensors');
    const file = await openSafetensors('a file', new Blob([bytes]));
    expect(file.about).toEqual({ 'made by': 'Python – ü' });
    for (const expected of SMALL) expect(await file.read(expected.name)).toEqual(expected);
    for (let end = 0; end < bytes.length; end += 3) {
      await expect(openSafetensors('a file', new Blob([bytes.slice(0, end)]))).rejects.toThrow(DataError);
    }
  });

  test.each([
    [
      'a header that is longer than the maximum',
      Uint8Array.from([0, 0, 0, 0, 1, 0, 0, 0, 0x7b]),
      "at byte 0, the header's length of",
    ],
    ['a header that is not JSON', safetensors('{"a":'), 'at byte 8, its header is not a JSON object'],
    [
      'a header that is a list',
      safetensors('{}').fill(0x5b, 8, 9).fill(0x5d, 9, 10),
      'is not a supported file of weights',
    ],
    [
      'metadata that is not text',
      safetensors({ __metadata__: { a: 1 } }),
      '__metadata__ contains values that are not texts',
    ],
    [
      'an entry without offsets',
      safetensors({ a: { dtype: 'F32', shape: [2] } }),
      'at byte 8, tensor "a": data_offsets',
    ],
    ['a negative dimension', safetensors({ a: F32(0, 8, [-2]) }), 'tensor "a": shape.0'],
    [
      'a tensor of two bytes an element whose shape needs fewer bytes',
      safetensors({ a: { ...F32(0, 8, [3]), dtype: 'F16' } }),
      'at byte 62, tensor "a" has 8 bytes, but its shape [3] needs 6 bytes',
    ],
    [
      'a tensor whose shape needs more bytes',
      safetensors({ a: F32(0, 8, [3]) }),
      'tensor "a" has 8 bytes, but its shape [3] needs 12 bytes',
    ],
    ['tensors that overlap', safetensors({ a: F32(0, 8, [2]), b: F32(4, 8, [1]) }), 'tensor "b" overlaps tensor "a"'],
    [
      'bytes between the header and the first tensor',
      safetensors({ a: F32(4, 8, [1]) }),
      'the bytes after the header do not belong to a tensor',
    ],
    [
      'bytes after the last tensor',
      safetensors({ a: F32(0, 4, [1]) }),
      'the bytes after tensor "a" do not belong to a tensor',
    ],
    [
      'a file that ends within a tensor',
      safetensors({ a: F32(0, 16, [4]) }),
      'it ends within tensor "a", 8 bytes too early',
    ],
  ])('rejects, with the position, %s', async (_, bytes, sentence) => {
    expect(await refusalOf(bytes)).toContain(sentence);
  });
});

describe('tfjs', () => {
  test.each(MODELS)('writes the model %s, which TensorFlow.js loads with the same outputs', async (name) => {
    const model = build(name, 1);
    const files = unzipSync(await encodeWeights('tfjs', tensorsOf(model), model.topology, {}));
    const json = JSON.parse(new TextDecoder().decode(files['model.json'])) as tf.io.ModelJSON;
    const loaded = await tf.loadLayersModel({
      load: () =>
        Promise.resolve({
          modelTopology: json.modelTopology,
          weightSpecs: json.weightsManifest[0]!.weights,
          weightData: files['weights.bin']!.slice().buffer,
        }),
    });
    expect(outputsOf({ logits: (inputs) => loaded.apply(inputs) as tf.Tensor })).toEqual(outputsOf(model));
    loaded.dispose();
    model.dispose();
  });

  test('rejects a zip with a missing file, or with a weight that is truncated or not float32, by its name', async () => {
    const { zipSync } = await import('fflate');
    const zip = (weights: unknown, files: Record<string, Uint8Array> = {}): Uint8Array<ArrayBuffer> => {
      const model = { weightsManifest: [{ paths: ['a.bin', 'b.bin'], weights }] };
      const parts = { 'a.bin': new Uint8Array(3), 'b.bin': new Uint8Array(5), ...files };
      const placed = Object.entries(parts).map(([name, bytes]) => [`folder/${name}`, bytes] as const);
      const json = new TextEncoder().encode(JSON.stringify(model));
      return zipSync({ 'folder/model.json': json, ...Object.fromEntries(placed) });
    };
    const w = { name: 'w', shape: [2], dtype: 'float32' };
    const opened = await openWeights('parts', new Blob([zip([w])]));
    expect(opened.entries).toEqual([tensor('w', [2], [0, 0])]);
    expect(await opened.read('w')).toEqual(tensor('w', [2], [0, 0]));
    expect(await refusalOf(zip([{ ...w, shape: [3] }]))).toContain(
      'has only 8 bytes in a.bin, b.bin, but weight "w" ends at byte 12',
    );
    expect(await refusalOf(zip([]))).toContain('8 bytes in a.bin, b.bin that do not belong to a weight');
    expect(await refusalOf(zip([{ ...w, dtype: 'int32' }]))).toContain('"w" as int32, but only float32 is supported');
    expect(await refusalOf(zip([{ ...w, quantization: {} }]))).toContain('"w" as quantized');
    expect(await refusalOf(zip('none'))).toContain(
      'has a folder/model.json that cannot be read (weightsManifest.0.weights',
    );
    expect(await refusalOf(zipSync({ 'a.txt': new Uint8Array() }))).toContain('it has no model.json');
  });
});

describe('keras', () => {
  const layers = [['Conv2D', 'conv1'] as const, ['Flatten', 'flatten'] as const, ['Dense', 'dense1'] as const];
  const topology: KerasTopology = {
    class_name: 'Sequential',
    config: {
      layers: [...layers, ['Dense', 'dense2'] as const].map(([kind, name]) => ({ class_name: kind, config: { name } })),
    },
  };

  test('reads a file from Keras', async () => {
    const names = ['conv1', 'dense1', 'dense2'].flatMap((layer) => [`${layer}/kernel`, `${layer}/bias`]);
    const shapes = [[3, 3, 1, 2], [2], [8, 3], [3], [3, 2], [2]];
    const file = await openWeights('keras.weights.h5', new Blob([fixture('keras.weights.h5')]));
    const values = await all(readMatchedWeights(file, { names, shapes, topology }));
    for (const [i, shape] of shapes.entries()) {
      const size = shape.reduce((product, side) => product * side, 1);
      expect(values[i]).toEqual(Float32Array.from({ length: size }, (_, at) => at / 8 - i));
    }
  });

  test('cannot write a model that does not consist of layers', async () => {
    await expect(encodeWeights('keras', SMALL, null, {})).rejects.toThrow(
      /not made of TensorFlow.js layers\. Save it as/,
    );
  });
});
