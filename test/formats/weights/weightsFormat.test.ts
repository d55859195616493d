/** Tests of files of other programs, and of files that were packed by other programs. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { strToU8, zipSync } from 'fflate';
import { describe, expect, test } from 'vitest';
import { matchWeightNames } from '../../../src/formats/weights/matchWeights.ts';
import { openWeights } from '../../../src/formats/weights/weightsFile.ts';
import { DataError } from '../../../src/util/errors.ts';
import { errorOf } from '../../errorOf.ts';

const open = (name: string, bytes: string | Uint8Array<ArrayBuffer>) => openWeights(name, new Blob([bytes]));

const json = (value: unknown): Uint8Array => strToU8(JSON.stringify(value));
const latin1 = (text: string): Uint8Array<ArrayBuffer> => Uint8Array.from(text, (char) => char.charCodeAt(0));
const keras = new Uint8Array(readFileSync(path.join(import.meta.dirname, 'keras.weights.h5')));

const modelJson = (name: string) =>
  json({ weightsManifest: [{ paths: ['w.bin'], weights: [{ name, shape: [1], dtype: 'float32' }] }] });
const BIN = new Uint8Array(4);

/** Returns a safetensors file with a tensor of each of the data types. */
function safetensors(tensors: readonly (readonly [name: string, dtype: string, shape: number[], bytes: number[]])[]) {
  let end = 0;
  const entries = tensors.map(([name, dtype, shape, bytes]) => {
    const begin = end;
    end += bytes.length;
    return [name, { dtype, shape, data_offsets: [begin, end] }] as const;
  });
  const header = json(Object.fromEntries(entries));
  const length = new Uint8Array(new BigUint64Array([BigInt(header.length)]).buffer);
  return Uint8Array.from([...length, ...header, ...tensors.flatMap(([, , , bytes]) => bytes)]);
}

describe('a zip of weights', () => {
  test.each([
    ['at its top', 'model.weights.h5'],
    ['in a folder', 'mine/model.weights.h5'],
    ['in a folder with backslashes', 'mine\\model.weights.h5'],
  ])('is read if it is an archive of Keras with weights %s', async (_, member) => {
    const bytes = zipSync({ 'metadata.json': json({}), 'config.json': json({}), [member]: keras });
    const file = await open('model.keras', bytes);
    expect([file.format, file.entries]).toEqual(['keras', (await open('keras.weights.h5', keras)).entries]);
  });

  test.each([
    [
      'entries of macOS',
      {
        '__MACOSX/m/model.json': BIN,
        '__MACOSX/m/._w.bin': BIN,
        'm/model.json': modelJson('a/kernel'),
        'm/w.bin': BIN,
      },
    ],
    ['backslashes', { 'm\\model.json': modelJson('a/kernel'), 'm\\w.bin': BIN }],
    ['a dot before the names', { './model.json': modelJson('a/kernel'), './w.bin': BIN }],
  ])('is read if it is a TensorFlow.js model with %s', async (_, members) => {
    expect((await open('m.zip', zipSync(members))).entries.map(({ name }) => name)).toEqual(['a/kernel']);
  });

  test.each([
    [
      'two models',
      { 'a/model.json': modelJson('a/kernel'), 'a/w.bin': BIN, 'b/model.json': modelJson('b/kernel'), 'b/w.bin': BIN },
      'x.zip has several models: a/model.json and b/model.json. Pack one of them.',
    ],
    [
      'a GraphModel',
      { 'model.json': json({ format: 'graph-model', weightsManifest: [] }) },
      /^x\.zip has a GraphModel, which has no layers\. .*--output_format=tfjs_layers_model/,
    ],
    ['a PyTorch file', { 'model/data.pkl': BIN, 'model/data/0': BIN }, /^x\.zip is a file of PyTorch\. .*safetensors/],
    [
      'a SavedModel',
      { 'm/saved_model.pb': BIN },
      /^x\.zip is a SavedModel of TensorFlow\. .*save_weights\('x\.weights\.h5'\)/,
    ],
    ['arrays of NumPy', { 'a.npy': BIN }, /^x\.zip contains arrays of NumPy\. .*safetensors/],
    [
      'packed weights',
      { 'm/model.safetensors': BIN },
      'x.zip contains m/model.safetensors. Unpack it and choose that file.',
    ],
    [
      'packed Keras weights',
      { 'm/mine.weights.h5': BIN },
      'x.zip contains m/mine.weights.h5. Unpack it and choose that file.',
    ],
    ['something else', { 'readme.txt': BIN }, /it has no model\.json/],
  ])('is rejected with advice if it has %s', async (_, members, message) => {
    await expect(open('x.zip', zipSync(members))).rejects.toThrow(message);
  });
});

describe('files of other programs', () => {
  test.each([
    [
      'an index of shards',
      JSON.stringify({
        weight_map: { a: 'm-1-of-2.safetensors', b: 'm-2-of-2.safetensors', c: 'm-1-of-2.safetensors' },
      }),
      /^x has no weights, but lists the files that have them: m-1-of-2\.safetensors and m-2-of-2\.safetensors\. .*max_shard_size/,
    ],
    [
      'an index of shards with a short first key',
      JSON.stringify({ meta: {}, weight_map: { a: 's.safetensors' } }),
      /lists the files that have them: s\.safetensors\./,
    ],
    [
      'an index of shards of Keras',
      ` ${JSON.stringify({ metadata: {}, weight_map: { '/layers/dense/vars': ['x_00000.weights.h5'] } })}`,
      /lists the files that have them: x_00000\.weights\.h5\. .*save_weights\('x\.weights\.h5'\)/,
    ],
    [
      'a model.json of TensorFlow.js',
      JSON.stringify({ weightsManifest: [{ paths: ['a.bin', 'b.bin'], weights: [] }] }),
      'x has no weights, but lists the files that have them: a.bin and b.bin. Pack it and these files in a zip, and choose the zip.',
    ],
    [
      'layers of Keras',
      JSON.stringify({ class_name: 'Sequential', config: {} }),
      /^x describes layers, but has no weights\./,
    ],
    ['an old file of PyTorch', latin1('\x80\x02\x8a\nl\xfc\x9cF\xf9'), /^x is a pickle, as PyTorch .*safetensors/],
    ['a model of ONNX', latin1('\x08\x07\x12\x07pytorch'), /^x is a model of ONNX\./],
    ['a model of TFLite', latin1('\x1c\0\0\0TFL3'), /^x is a model of TensorFlow Lite\./],
    ['a GGUF file', latin1('GGUF\x03\0\0\0'), /^x is a GGUF file\./],
    ['an array of NumPy', latin1('\x93NUMPY\x01\0'), /^x is an array of NumPy\./],
    ['a gzip file', latin1('\x1f\x8b\x08\0'), /^x is compressed by gzip\. Unpack it/],
    ['a RAR archive', latin1('Rar!\x1a\x07'), /^x is a RAR archive\. Unpack it/],
    ['a 7z archive', latin1('7z\xbc\xaf\x27\x1c'), /^x is a 7z archive\. Unpack it/],
    [
      'a pointer of Git LFS',
      'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n',
      /^x is a pointer of Git LFS.*git lfs pull/,
    ],
    ['a web page', '\n<!DOCTYPE html><html>404</html>', /^x is a web page.*Download/],
    ['nothing', '', /^x is empty\. Copy or save it again\.$/],
    ['anything else', 'Hello.', /^x is not a supported file of weights\./],
  ])('%s is rejected with advice', async (_, content, message) => {
    const error = await errorOf(open('x', content));
    expect([error instanceof DataError, error.message]).toEqual([true, expect.stringMatching(message)]);
  });
});

describe('safetensors', () => {
  test.each([
    ['a pickle', 0x0280],
    ['a zip', 0x4b50],
    ['a gzip file', 0x8b1f],
    ['an ONNX model', 0x120108],
  ])('a header is read even if its length looks like the start of %s', async (_, length) => {
    const bytes = safetensors([['w', 'F32', [1], [0, 0, 0, 0]]]);
    const header = Buffer.from(bytes.subarray(8, -4)).toString().padEnd(length);
    const size = new Uint8Array(new BigUint64Array([BigInt(length)]).buffer);
    const file = await open('x', Uint8Array.from([...size, ...strToU8(header), 0, 0, 0, 0]));
    expect(file.entries).toEqual([{ name: 'w', shape: [1] }]);
  });

  test('weights of type F16, BF16 and F64 are converted', async () => {
    const file = await open(
      'x',
      safetensors([
        ['half', 'F16', [2], [0x00, 0x3c, 0x00, 0xc0]],
        ['brain', 'BF16', [2], [0x80, 0x3f, 0x00, 0xc0]],
        ['double', 'F64', [1], [...new Uint8Array(Float64Array.of(0.1).buffer)]],
      ]),
    );
    const values = await Promise.all(['half', 'brain', 'double'].map(async (name) => (await file.read(name)).values));
    expect([values, file.notes]).toEqual([
      [Float32Array.of(1, -2), Float32Array.of(1, -2), Float32Array.of(0.1)],
      [{ kind: 'weights-rounded', count: 1, name: 'double', example: 'float64' }],
    ]);
  });

  test('NaN and infinite weights are rejected, with name and position', async () => {
    const infinite = safetensors([['w', 'F32', [2], [0, 0, 0, 0, 0, 0, 0x80, 0x7f]]]);
    expect((await errorOf(open('x', infinite))).message).toContain('x has Infinity in "w", at position 1,');
    const nan = safetensors([['w', 'F16', [1], [0, 0x7e]]]);
    expect((await errorOf(open('x', nan))).message).toContain('x has NaN in "w", at position 0,');
  });

  test('a transposed weight is rejected with advice', async () => {
    const file = await open('x', safetensors([['w', 'F16', [1, 2], [0, 0, 0, 0]]]));
    const fit = (shape: number[]) => () => matchWeightNames(file, { names: ['w'], shapes: [shape], topology: null });
    expect(fit([2, 1])).toThrow('of shape [1, 2], but in this model its shape is [2, 1]. PyTorch stores such weights');
    expect(fit([2, 2])).toThrow('its shape is [2, 2]. Choose the model and width');
  });

  test.each(['I64', 'BOOL', 'F8_E4M3'])(
    'a tensor of type %s is left out with a note, and rejected by name if it is needed',
    async (dtype) => {
      const bytes = Array.from({ length: dtype === 'I64' ? 8 : 1 }, () => 0);
      const tensors = safetensors([
        ['w', 'F32', [1], [0, 0, 0, 0]],
        ['steps', dtype, [], bytes],
      ]);
      const file = await open('x', tensors);
      const fit = (name: string, shape: number[]) =>
        matchWeightNames(file, { names: [name], shapes: [shape], topology: null });
      expect(file.notes).toEqual([{ kind: 'weights-left-out', count: 1, name: 'steps', example: dtype }]);
      expect(fit('w', [1])).toEqual(['w']);
      expect(() => fit('steps', [])).toThrow(
        `x has "steps" of type ${dtype}, but weights must be one of float16, bfloat16,`,
      );
    },
  );
});
