import { randomBytes } from 'node:crypto';
import { crc32, deflateRawSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { openZip } from '../../src/formats/zip.ts';
import { unpackZipEntry, type ZipEntryFacts } from '../../src/formats/zipEntry.ts';
import { zipFile } from './zipFiles.ts';

const BYTES = new TextEncoder().encode('words '.repeat(300));

async function entryOf(zip: Uint8Array<ArrayBuffer>): Promise<ZipEntryFacts> {
  return (await openZip('a.zip', new Blob([zip])))[0]!.facts;
}

const reader =
  (zip: Uint8Array<ArrayBuffer>, { offset }: ZipEntryFacts) =>
  (bytes: number): Promise<Uint8Array<ArrayBuffer>> =>
    Promise.resolve(zip.slice(offset, offset + bytes));

test.each(['stored', 'deflated'] as const)('an entry that is %s is unpacked from its bytes', async (method) => {
  const zip = zipFile({ 'a/b.txt': BYTES }, { method });
  const entry = await entryOf(zip);
  expect(await unpackZipEntry(entry, reader(zip, entry))).toEqual(BYTES);
});

test('an entry behind a long extra field is read again', async () => {
  const zip = zipFile({ 'b.txt': BYTES }, { method: 'stored' });
  const extra = new Uint8Array(2000);
  const head = 30 + 'b.txt'.length;
  const long = new Uint8Array([...zip.subarray(0, head), ...extra, ...zip.subarray(head)]);
  new DataView(long.buffer).setUint16(28, extra.length, true);
  const entry = await entryOf(zip);
  expect(await unpackZipEntry(entry, reader(long, entry))).toEqual(BYTES);
});

test.each<[string, (zip: Uint8Array<ArrayBuffer>) => Uint8Array<ArrayBuffer>, string]>([
  [
    'whose bytes have changed',
    (zip) => zip.map((byte, i) => (i === 60 ? byte ^ 1 : byte)),
    'b.txt at byte 35 cannot be unpacked',
  ],
  ['that ends too early', (zip) => zip.slice(0, 50), 'b.txt at byte 35 ends too early, at byte 50'],
  ['without a header', (zip) => zip.map((byte, i) => (i === 0 ? 0 : byte)), 'b.txt at byte 0 is missing'],
])('an entry %s is reported', async (_, change, sentence) => {
  const zip = zipFile({ 'b.txt': BYTES }, { method: 'stored' });
  const entry = await entryOf(zip);
  await expect(unpackZipEntry(entry, reader(change(zip), entry))).rejects.toThrow(sentence);
});

test('the start of an entry is complete although its first block is empty', async () => {
  const large = new Uint8Array(randomBytes(10_000));
  const packed = Buffer.concat([Buffer.from([0, 0, 0, 0xff, 0xff]), deflateRawSync(large)]);
  const zip = zipFile({ 'b.bin': packed }, { method: 'stored' });
  const entry: ZipEntryFacts = { ...(await entryOf(zip)), method: 8, size: large.length, crc: crc32(large) };
  expect(await unpackZipEntry(entry, reader(zip, entry), 100)).toEqual(large.slice(0, 100));
});

test.each(['stored', 'deflated'] as const)(
  'the start of a large entry that is %s is read without the rest',
  async (method) => {
    const large = new Uint8Array(randomBytes(100_000));
    const zip = zipFile({ 'b.bin': large }, { method });
    const entry = await entryOf(zip);
    const counts: number[] = [];
    const start = await unpackZipEntry(
      entry,
      (count) => {
        counts.push(count);
        return reader(zip, entry)(count);
      },
      32,
    );
    expect(start).toEqual(large.slice(0, 32));
    expect(Math.max(...counts)).toBeLessThan(2000);
  },
);
