import { expect, test } from 'vitest';
import { openZip } from '../../src/formats/zip.ts';
import { placeOnceArrived, readFilesAtPlaces, type FilePlace, type IncomingFile } from '../../src/jobs/dataFile.ts';
import { zipFile } from '../formats/zipFiles.ts';

const BYTES = new TextEncoder().encode('words '.repeat(300));

/** Returns a file whose bytes before `here` have arrived, and the ranges that were read of it. */
function sharedFile(bytes: Uint8Array<ArrayBuffer>, here: number): { file: IncomingFile; asked: [number, number][] } {
  const asked: [number, number][] = [];
  const file: IncomingFile = {
    size: bytes.length,
    has: (_, end) => end <= here,
    range: (start, end) => {
      asked.push([start, end]);
      return Promise.resolve(new Blob([bytes.slice(start, end)]));
    },
  };
  return { file, asked };
}

/** Returns a zip file of two entries. The header before the first one has `extra` more bytes. */
async function zipWith(extra: number) {
  const zip = zipFile({ 'a.txt': BYTES, 'b.txt': BYTES }, { method: 'stored' });
  const { facts: entry } = (await openZip('a.zip', new Blob([zip])))[0]!;
  const head = 30 + 'a.txt'.length;
  const bytes = new Uint8Array([...zip.subarray(0, head), ...new Uint8Array(extra), ...zip.subarray(head)]);
  new DataView(bytes.buffer).setUint16(28, extra, true);
  return { bytes, entry };
}

test.each([
  ['a header of usual length', 0, 0, 1],
  ['a long header', 2000, 0, 2],
  ['a long header, after all bytes have arrived', 2000, Infinity, 1],
])('an entry of a zip file that another rank sends is read behind %s', async (_, extra, here, ranges) => {
  const { bytes, entry } = await zipWith(extra);
  const { file, asked } = sharedFile(bytes, here);
  const place = await placeOnceArrived({ in: 'zip', zip: { in: 'shared', file }, entry });
  expect(asked).toHaveLength(ranges);
  expect(await readFilesAtPlaces([{ path: 'a.txt', place }])).toEqual([BYTES]);
});

test('a file that another rank sends is read as a whole, or its start', async () => {
  const { file } = sharedFile(BYTES, 0);
  const place: FilePlace = { in: 'shared', file };
  expect(await readFilesAtPlaces([{ path: 'a', place }])).toEqual([BYTES]);
  expect(await readFilesAtPlaces([{ path: 'a', place }], 10)).toEqual([BYTES.slice(0, 10)]);
  expect(await readFilesAtPlaces([{ path: 'a', place: await placeOnceArrived(place) }])).toEqual([BYTES]);
});
