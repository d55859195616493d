import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { NUMPY_ELEMENT_TYPES, type NumpyElementType, type StoredArray } from '../../src/formats/storedArray.ts';
import { openNpy } from '../../src/formats/npy.ts';
import { openNpz } from '../../src/formats/npz.ts';
import { DataError } from '../../src/util/errors.ts';
import { npyFile } from './npyFiles.ts';
import { zipFile } from './zipFiles.ts';

async function valuesOf(array: StoredArray): Promise<number[]> {
  const out = new Float64Array(array.rows * array.rowLength);
  for (let row = 0; row < array.rows; row++) await array.readRow(row, out, row * array.rowLength);
  return [...out];
}

/** Writes values to a big-endian npy file, and returns the values that are read from it. */
async function written(values: number[], type: NumpyElementType): Promise<number[]> {
  return valuesOf(await openNpy('x.npy', new Blob([npyFile([values.length], values, { type, order: '>' })])));
}

const upTo = (most: number): number[] => Array.from({ length: most }, (_, i) => i);

describe('an npy file', () => {
  test('is read with any type, byte order, element order and version', async () => {
    const options = fc.record({
      type: fc.constantFrom(...NUMPY_ELEMENT_TYPES),
      order: fc.constantFrom('<' as const, '>' as const),
      isFortran: fc.boolean(),
      version: fc.constantFrom(1 as const, 2 as const, 3 as const),
    });
    const shape = fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(
        options,
        shape,
        fc.infiniteStream(fc.integer({ min: 0, max: 127 })),
        async (how, sides, stream) => {
          const count = sides.reduce((product, side) => product * side, 1);
          const values = [...stream.take(count)].map((value) => (how.type === 'b1' ? value % 2 : value));
          const array = await openNpy('x.npy', new Blob([npyFile(sides, values, how)]));
          expect(array).toMatchObject({ shape: sides, type: how.type, rows: sides[0], rowLength: count / sides[0]! });
          expect(await valuesOf(array)).toEqual(values);
        },
      ),
    );
  });

  test('may contain negative numbers, fractions and large integers', async () => {
    for (const type of ['i1', 'i2', 'i4', 'i8'] as const) expect(await written([-128, 5], type)).toEqual([-128, 5]);
    expect(await written([2 ** 40, -(2 ** 50)], 'i8')).toEqual([2 ** 40, -(2 ** 50)]);
    expect(await written([0.1, -1e149], 'f8')).toEqual([0.1, -1e149]);
    expect(await written([2 ** 32 - 1], 'u4')).toEqual([2 ** 32 - 1]);
  });

  const good = npyFile([2, 3], upTo(6));
  const changed = (at: number, byte: number): Uint8Array<ArrayBuffer> => {
    const bytes = good.slice();
    bytes[at] = byte;
    return bytes;
  };
  const withHeader = (from: string, to: string): Uint8Array<ArrayBuffer> =>
    new Uint8Array(Buffer.from(Buffer.from(good).toString('latin1').replace(from, to), 'latin1'));
  test.each([
    ['an empty file', new Uint8Array(0), 'x.npy is not an npy file: byte 0 is missing, but npy files have 147 there'],
    ['a file that is not npy', changed(3, 0x4e), 'byte 3 is 78, but npy files have 77 there'],
    ['an unknown version', changed(6, 9), 'has npy version 9 at byte 6'],
    ['an unterminated header', changed(9, 0xff), 'damaged at byte 8: its header would have 65398 bytes'],
    [
      'a header without a shape',
      withHeader("'shape'", "'sharp'"),
      'the header at byte 10 does not contain type, order and shape',
    ],
    ['an array of texts', withHeader('<f4', '<U4'), 'has type "<U4", but only b1, i1'],
    ['an array of records', withHeader("'<f4'", "[('a',"), 'describes records with fields'],
    ['an impossible shape', withHeader('(2, 3)', `(${'9'.repeat(20)}, 3)`), 'This shape is too large'],
    [
      'a truncated file',
      good.subarray(0, good.length - 1),
      'an array of shape (2, 3) and type f4 starts at byte 128 and must end at byte 152, but the file ends at byte 151',
    ],
    ['additional bytes', new Uint8Array([...good, 1]), 'is longer than its header says'],
  ])('is rejected with a reason: %s', async (_, bytes, sentence) => {
    const error = await openNpy('x.npy', new Blob([bytes])).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(DataError);
    expect((error as DataError).message).toContain(sentence);
  });

  test('is rejected with the row and the byte of the first NaN', async () => {
    const array = await openNpy('x.npy', new Blob([npyFile([2, 2], [0, 1, 2, NaN])]));
    await expect(array.readRow(1, new Float32Array(2))).rejects.toThrow('row 1 has NaN at byte 140');
  });

  test('is rejected if the square of a number is too large', async () => {
    const array = await openNpy('x.npy', new Blob([npyFile([2, 1], [1e150, -1e160], { type: 'f8' })]));
    const out = new Float64Array(1);
    await array.readRow(0, out);
    await expect(array.readRow(1, out)).rejects.toThrow('row 1 has -1e+160 at byte 136. Numbers may be at most 1e+150');
  });
});

describe('an npz file', () => {
  const files = {
    'x.npy': npyFile([2, 2], upTo(4)),
    'y.npy': npyFile([2], [1, 0], { type: 'i8' }),
    'notes.txt': new Uint8Array(3),
  };
  test.each(['stored', 'deflated'] as const)('gives each array by its name if its entries are %s', async (method) => {
    const { names, open } = await openNpz('set.npz', new Blob([zipFile(files, { method })]));
    expect(names).toEqual(['x', 'y']);
    expect(await valuesOf(await open('x'))).toEqual([0, 1, 2, 3]);
    expect(await valuesOf(await open('y'))).toEqual([1, 0]);
  });

  test('is rejected with the names of the file and of the damaged array', async () => {
    const { open } = await openNpz('set.npz', new Blob([zipFile({ 'x.npy': files['x.npy'].subarray(0, 140) })]));
    await expect(open('x')).rejects.toThrow('set.npz: x.npy ends too early');
  });
});
