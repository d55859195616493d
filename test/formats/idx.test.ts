import { randomBytes } from 'node:crypto';
import { describe, expect, test, vi } from 'vitest';
import { gzip, idxFile, imagesFile, labelsFile } from './idxFiles.ts';
import { openIdx } from '../../src/formats/idx.ts';
import { DataError } from '../../src/util/errors.ts';

describe('openIdx reads', () => {
  test.each([
    ['plain', imagesFile(3)],
    ['gzipped', gzip(imagesFile(3))],
  ])('%s images', async (_, bytes) => {
    const array = await openIdx('a', new Blob([bytes]));
    expect(array.shape).toEqual([3, 28, 28]);
    expect(await array.readBytes()).toEqual(imagesFile(3).subarray(16));
  });

  test('labels from a file named .gz that a server has already unpacked', async () => {
    const array = await openIdx('labels.gz', new Blob([labelsFile(12)]));
    expect([...(await array.readBytes())]).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]);
  });

  test('a gzipped file of many chunks', async () => {
    const array = await openIdx('a', new Blob([gzip(imagesFile(2000))]));
    expect(Buffer.compare(await array.readBytes(), imagesFile(2000).subarray(16))).toBe(0);
  });
});

test('openIdx stops reading a gzipped file as soon as it is known not to be IDX', async () => {
  const bytes = gzip(randomBytes(1 << 20));
  let isCancelled = false;
  let at = 0;
  const source = new ReadableStream({
    // A stream that never ends by itself.
    pull: (controller) => controller.enqueue(bytes.subarray(at, (at += 4096))),
    cancel: () => void (isCancelled = true),
  });
  const blob = new Blob([bytes]);
  blob.stream = () => source as ReturnType<Blob['stream']>;
  await expect(openIdx('x', blob)).rejects.toThrow('x is not IDX');
  await vi.waitFor(() => expect(isCancelled).toBe(true));
});

describe('openIdx rejects, with the name of the file,', () => {
  const packed = gzip(imagesFile(200));
  const flipped = packed.slice();
  flipped[packed.length >> 1]! ^= 0xff;
  const html = new TextEncoder().encode('<!doctype html>');
  const huge = idxFile([1, 1, 1], new Uint8Array(1));
  new DataView(huge.buffer).setUint32(4, 0xffffffff);

  test.each([
    ['a .gz file that is not gzip', 'x.gz', html, 'x.gz is not gzip: it starts with 3c 21'],
    ['an empty .gz', 'x.gz', new Uint8Array(0), 'it is empty'],
    ['a web page', 'x', html, 'x is not IDX: it starts with 3c 21 64 6f at byte 0'],
    ['a file that ends within its header', 'x', imagesFile(1).slice(0, 9), 'ends too early, at byte 9 of its header'],
    [
      'a truncated file',
      'x',
      imagesFile(2).slice(0, 100),
      '2 x 28 x 28 elements of type u1 start at byte 16 and must end at byte 1584, but the file ends at byte 100',
    ],
    [
      'a truncated file, gzipped',
      'x',
      gzip(imagesFile(2).slice(0, 100)),
      '2 x 28 x 28 elements of type u1 start at byte 16 and must end at byte 1584, but the file ends at byte 100',
    ],
    ['truncated gzip', 'x', packed.slice(0, packed.length - 50), 'damaged or ends too early'],
    ['damaged gzip', 'x', flipped, 'damaged or ends too early'],
    ['gzip with bytes after its end', 'x', Uint8Array.of(...packed, 1, 2, 3), 'damaged or ends too early'],
    ['additional bytes', 'x', Uint8Array.of(...imagesFile(1), 1), 'longer than its header says'],
    ['a gzip bomb', 'x', gzip(idxFile([1, 1, 1], new Uint8Array(2e7))), 'longer than its header says'],
    ['a header with an impossible size', 'x', huge, 'ends too early: 4294967295 x 1 x 1 elements of type u1'],
  ])('%s', async (_, name, bytes, sentence) => {
    const error = await openIdx(name, new Blob([bytes])).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(DataError);
    expect((error as DataError).message).toContain(sentence);
    expect((error as DataError).message).toMatch(/^x/);
  });
});
