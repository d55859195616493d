import { describe, expect, test } from 'vitest';
import { gzip, idxFile, imagesFile, labelsFile } from './idxFiles.ts';
import { readIdx } from '../../src/jobs/idx.ts';
import { DataError } from '../../src/util/errors.ts';

describe('reads', () => {
  test.each([
    ['plain', imagesFile(3)],
    ['gzipped', gzip(imagesFile(3))],
  ])('%s images', async (_, bytes) => {
    const { dims, values } = await readIdx('a', bytes, 3);
    expect(dims).toEqual([3, 28, 28]);
    expect(values).toEqual(imagesFile(3).subarray(16));
  });

  test('labels, and a .gz that a server unpacked on the way', async () => {
    expect([...(await readIdx('labels.gz', labelsFile(12), 1)).values]).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]);
  });

  test('a file of many decompression parts', async () => {
    const { values } = await readIdx('a', gzip(imagesFile(2000)), 3);
    expect(Buffer.compare(values, imagesFile(2000).subarray(16))).toBe(0);
  });
});

describe('refuses, naming the file', () => {
  const packed = gzip(imagesFile(200));
  const flipped = packed.slice();
  flipped[packed.length >> 1]! ^= 0xff;
  const html = new TextEncoder().encode('<!doctype html>');
  const huge = idxFile([1, 1, 1], new Uint8Array(1));
  new DataView(huge.buffer).setUint32(4, 0xffffffff);

  test.each([
    ['what is not gzip', 'x.gz', html, 'x.gz is not gzip: it starts with 3c 21'],
    ['an empty .gz', 'x.gz', new Uint8Array(0), 'it is empty'],
    ['a web page', 'x', html, 'not an IDX file of images: it starts with 3c 21 64 6f'],
    ['labels for images', 'x', labelsFile(50), 'images start with 00 00 08 03'],
    ['half a header', 'x', imagesFile(1).slice(0, 9), 'its header has 16 bytes, and there are 9'],
    ['a truncated file', 'x', imagesFile(2).slice(0, 100), '1584 bytes, and there are 100'],
    ['a truncated file, gzipped', 'x', gzip(imagesFile(2).slice(0, 100)), '1584 bytes, and there are 100'],
    ['truncated gzip', 'x', packed.slice(0, packed.length - 50), 'damaged or ends too early'],
    ['damaged gzip', 'x', flipped, 'damaged or ends too early'],
    ['gzip and then junk', 'x', Uint8Array.of(...packed, 1, 2, 3), 'damaged or ends too early'],
    ['left over bytes', 'x', Uint8Array.of(...imagesFile(1), 1), 'longer than its header says'],
    ['a gzip bomb', 'x', gzip(idxFile([1, 1, 1], new Uint8Array(2e7))), 'longer than its header says'],
    ['a header beyond reason', 'x', huge, '4294967295 x 1 x 1 bytes, more than'],
  ])('%s', async (_, name, bytes, sentence) => {
    const error = await readIdx(name, bytes, 3).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(DataError);
    expect((error as DataError).message).toContain(sentence);
    expect((error as DataError).message).toMatch(/^x/);
  });
});
