/** The tour: its pictures' format, and that all of them are there. */
import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { deflateSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { decodePng, encodeWithPalette, shrinkPng, type Bitmap } from '../../launcher/tour/smallPng.ts';
import { tourPage } from '../../launcher/tour/tourPage.ts';
import { STOPS } from '../../launcher/tour/visit.ts';

const DOCS = path.resolve(import.meta.dirname, '../../docs');
/** Bytes of all pictures together. */
const MOST_BYTES = 1_500_000;

/** A PNG chunk; checksums are for readers that ask for them. */
function chunk(type: string, body: Uint8Array): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(body.length);
  return Buffer.concat([length, Buffer.from(type), body, Buffer.alloc(4)]);
}

/** A picture of 2 x 5 pixels in RGB, a row for each of the five filters. */
function filtered(): Buffer {
  const header = Buffer.from([0, 0, 0, 2, 0, 0, 0, 5, 8, 2, 0, 0, 0]);
  const rows = [
    [0, 10, 20, 30, 40, 50, 60],
    [1, 10, 20, 30, 30, 30, 30],
    [2, 0, 0, 0, 0, 0, 0],
    [3, 5, 10, 15, 15, 15, 15],
    [4, 0, 0, 0, 0, 0, 0],
  ];
  const start = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  return Buffer.concat([start, chunk('IHDR', header), chunk('IDAT', deflateSync(Buffer.from(rows.flat())))]);
}

test('a PNG is read whatever the filters of its rows', () => {
  const { width, height, pixels } = decodePng(filtered());
  expect([width, height]).toEqual([2, 5]);
  for (let row = 0; row < height; row++) {
    expect([...pixels.subarray(2 * row, 2 * row + 2)]).toEqual([0x0a141e, 0x28323c]);
  }
});

test('a picture of another kind is refused', () => {
  expect(() => decodePng(encodeWithPalette(decodePng(filtered())))).toThrow('8 bits a channel');
});

test('a small PNG has the size of the picture, a palette, and few bytes', () => {
  const small = shrinkPng(filtered());
  expect(small.toString('latin1', 12, 16)).toBe('IHDR');
  expect([small.readUInt32BE(16), small.readUInt32BE(20), small[25]]).toEqual([2, 5, 3]);
  // Two colours, each once.
  const at = small.indexOf('PLTE');
  expect([...small.subarray(at + 4, at + 10)]).toEqual([0x0a, 0x14, 0x1e, 0x28, 0x32, 0x3c]);
});

test('of more colours than a palette has, the frequent ones stay', () => {
  const many: Bitmap = {
    width: 400,
    height: 2,
    pixels: Uint32Array.from({ length: 800 }, (_, i) => (i < 400 ? 0xfafaf8 : i)),
  };
  const small = encodeWithPalette(many);
  const at = small.indexOf('PLTE');
  expect(small.readUInt32BE(at - 4)).toBe(3 * 256);
  expect([...small.subarray(at + 4, at + 7)]).toEqual([0xfa, 0xfa, 0xf8]);
});

test('docs/tour.md shows every page, in pictures that are there and small', async () => {
  const page = await readFile(path.join(DOCS, 'tour.md'), 'utf8');
  expect(page).toBe(tourPage(Object.values(STOPS)));
  const pictures = Array.from(page.matchAll(/src="([^"]+)"/g), ([, src]) => src!);
  expect(pictures).toHaveLength(4 * Object.keys(STOPS).length);
  const sizes = await Promise.all(pictures.map(async (src) => (await stat(path.join(DOCS, src))).size));
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(MOST_BYTES);
});
