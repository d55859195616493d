import { describe, expect, test } from 'vitest';
import { openZip } from '../../src/formats/zip.ts';
import { DataError } from '../../src/util/errors.ts';
import { zipFile } from './zipFiles.ts';

const text = (words: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(words);
const files = {
  'cats/': text(''),
  'cats/猫.txt': text('miau '.repeat(100)),
  'dogs/b.txt': text('wuff'),
  empty: text(''),
};

const IN_437 = new Map(Array.from('ÄäöÜéñß', (letter, i) => [letter, [0x8e, 0x84, 0x94, 0x9a, 0x82, 0xa4, 0xe1][i]!]));
const in1252 = (name: string): Uint8Array => Buffer.from(name, 'latin1');
const in437 = (name: string): Uint8Array =>
  Uint8Array.from(name, (letter) => IN_437.get(letter) ?? letter.charCodeAt(0));

describe('a zip file', () => {
  test.each([
    ['not compressed', { method: 'stored' }],
    ['deflated', {}],
    ['written with zip64 fields', { isWide: true }],
    ['written without an encoding flag', { flags: 0 }],
  ] as const)('is read completely if it is %s', async (_, options) => {
    const entries = await openZip('a.zip', new Blob([zipFile(files, options)]));
    expect(entries.map(({ path, size }) => [path, size])).toEqual([
      ['cats/猫.txt', 500],
      ['dogs/b.txt', 4],
      ['empty', 0],
    ]);
    const contents = await Promise.all(entries.map(async (entry) => (await entry.blob()).text()));
    expect(contents).toEqual(['miau '.repeat(100), 'wuff', '']);
  });

  test.each<[string, string[], (name: string) => Uint8Array, string | null]>([
    ['code page 437, as of Windows', ['Käse/1', 'Straße', 'año'], in437, 'code page 437'],
    ['windows-1252', ['Käse/1', 'Straße', 'naïve'], in1252, 'windows-1252'],
    ['windows-1252, with capitals', ['ÄÖÜ', 'Ñandú'], in1252, 'windows-1252'],
    ['ASCII', ['cats/1'], in1252, null],
  ])('may have names in %s', async (_, paths, encode, guessed) => {
    const packed = zipFile(Object.fromEntries(paths.map((name) => [name, text('b')])), { flags: 0, encode });
    const entries = await openZip('a.zip', new Blob([packed]));
    expect(entries.map((entry) => [entry.path, entry.guessed])).toEqual(paths.map((path) => [path, guessed]));
    expect(await Promise.all(entries.map(async (entry) => (await entry.blob()).text()))).toEqual(paths.map(() => 'b'));
  });

  test.each(['./', '../', '..\\', '/', '//'])('has paths without the %s at their start', async (start) => {
    const [entry] = await openZip('a.zip', new Blob([zipFile({ [`${start}cats/1.png`]: text('b') })]));
    expect(entry!.path).toBe('cats/1.png');
  });

  test('may have text after the end of its directory', async () => {
    const bytes = zipFile({ a: text('b') });
    const commented = new Uint8Array([...bytes, ...text('made by hand')]);
    const entries = await openZip('a.zip', new Blob([commented]));
    expect(entries).toHaveLength(1);
  });

  test.each([
    ['', false],
    [', with zip64 fields', true],
  ])('may be self-extracting%s', async (_, isWide) => {
    const bytes = zipFile(files, { isWide });
    const entries = await openZip('a.zip', new Blob([text('#!/bin/sh\nexec unzip "$0"\n'), bytes]));
    const contents = await Promise.all(entries.map(async (entry) => (await entry.blob()).text()));
    expect(contents).toEqual(['miau '.repeat(100), 'wuff', '']);
  });

  test('may have 65535 entries without a zip64 directory', async () => {
    const one = zipFile({ a: text('') }, { method: 'stored' });
    const [local, entry, end] = [one.subarray(0, 31), one.subarray(31, 78), one.slice(78)];
    const view = new DataView(end.buffer);
    for (const at of [8, 10]) view.setUint16(at, 0xffff, true);
    view.setUint32(12, 0xffff * entry.length, true);
    const directory = Buffer.concat(Array.from({ length: 0xffff }, () => entry));
    const entries = await openZip('a.zip', new Blob([local, directory, end]));
    expect(entries).toHaveLength(0xffff);
  });

  const good = zipFile({ 'a.txt': text('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa') });
  const changed = (...places: number[]): Uint8Array<ArrayBuffer> => {
    const bytes = good.slice();
    for (let i = 0; i < places.length; i += 2)
      bytes[places[i]! < 0 ? bytes.length + places[i]! : places[i]!] = places[i + 1]!;
    return bytes;
  };

  test('is read even if the offset of its directory is wrong', async () => {
    const entries = await openZip('a.zip', new Blob([changed(-3, 0xee)]));
    expect(await (await entries[0]!.blob()).text()).toBe('a'.repeat(33));
  });

  test('has entries that can be read more than once', async () => {
    for (const method of ['stored', 'deflated'] as const) {
      const [entry] = await openZip('a.zip', new Blob([zipFile({ a: text('b') }, { method })]));
      expect([await (await entry!.blob()).text(), await (await entry!.blob()).text()]).toEqual(['b', 'b']);
    }
  });

  test.each([
    ['an empty file', new Uint8Array(0), 'a.zip is not a zip file: it starts with nothing at byte 0'],
    [
      'a file that is not a zip file',
      text('hello, world'),
      'it starts with 68 65 6c 6c at byte 0, but zip files start with 50 4b 03 04',
    ],
    ['a RAR archive', text('Rar!\x1a'), 'a.zip is not a zip file, but a RAR archive. Unpack it'],
    ['a gzip file', Uint8Array.of(0x1f, 0x8b, 8, 0), 'a.zip is not a zip file, but a gzip file. Unpack it'],
    ['a truncated download', good.subarray(0, good.length - 30), `a.zip ends too early, at byte ${good.length - 30}`],
    ['a damaged directory', changed(-22 - 51, 0), 'is damaged at byte 40: entry 1 of its directory is missing'],
    ['a missing zip64 directory', changed(-3, 0xff, -4, 0xff, -5, 0xff, -6, 0xff), 'its zip64 directory is missing'],
    ['a part of a split file', changed(-18, 3), 'a.zip is one part of a split zip file'],
    ['an encrypted entry', zipFile(files, { flags: 1 }), 'cats/猫.txt at byte 37 is encrypted'],
    ['another compression method', changed(-22 - 51 + 10, 12), 'a.txt at byte 0 uses compression method 12'],
    ['a damaged header', changed(0, 0), 'a.txt at byte 0 is missing'],
    ['damaged contents', changed(36, 0xff), 'a.txt at byte 35 cannot be unpacked. It is damaged'],
    ['a wrong checksum', changed(-22 - 51 + 16, 1), 'a.txt at byte 35 cannot be unpacked'],
    ['a wrong unpacked size', changed(-22 - 51 + 24, 3), 'a.txt at byte 35 cannot be unpacked'],
  ])('is rejected with a reason: %s', async (_, bytes, sentence) => {
    const read = async (): Promise<unknown> => {
      const entries = await openZip('a.zip', new Blob([bytes]));
      return entries[0]!.blob();
    };
    const error = await read().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(DataError);
    expect((error as DataError).message).toContain(sentence);
  });
});
