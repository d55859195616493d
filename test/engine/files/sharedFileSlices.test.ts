import { describe, expect, test } from 'vitest';
import { SharedFileSlices } from '../../../src/engine/files/sharedFileSlices.ts';
import { FILE_SLICE_BYTES } from '../../../src/protocol/frame.ts';
import { DataError } from '../../../src/util/errors.ts';
import { changingFile, contentOf, fileOf } from './testFiles.ts';

const chosen = (...files: File[]): Promise<SharedFileSlices> => SharedFileSlices.chosen(files, () => {});

test('chosen files are read once, and cut into slices', async () => {
  const read: number[] = [];
  const files = [fileOf('a', 2 * FILE_SLICE_BYTES + 3), fileOf('empty', 0), fileOf('b', 1)];
  const shared = await SharedFileSlices.chosen(files, (bytes) => read.push(bytes));
  expect(shared.count).toBe(4);
  expect([0, 1, 2, 3].map((slice) => shared.bytesOf(slice))).toEqual([FILE_SLICE_BYTES, FILE_SLICE_BYTES, 3, 1]);
  expect(read.at(-1)).toBe(2 * FILE_SLICE_BYTES + 4);
  expect(shared.isWhole).toBe(true);
  expect(shared.heldBytes).toBe(shared.totalBytes);
  const again = shared.files();
  expect(again.map(({ name }) => name)).toEqual(['a', 'empty', 'b']);
  for (const [i, file] of again.entries()) expect(await contentOf(file)).toBe(await contentOf(files[i]!));
});

test('two files have equal manifests only if their names and bytes are equal', async () => {
  const shared = await chosen(fileOf('a', 5000));
  expect(shared.isOf((await chosen(fileOf('a', 5000))).manifest)).toBe(true);
  for (const other of [fileOf('b', 5000), fileOf('a', 5001), fileOf('a', 5000, 2)]) {
    expect(shared.isOf((await chosen(other)).manifest)).toBe(false);
  }
});

test('a received slice is kept only if its hash is right', async () => {
  const source = await chosen(fileOf('a', FILE_SLICE_BYTES + 7));
  const shared = SharedFileSlices.awaited(source.manifest);
  shared.setDigests(source.digests!);
  const [first, last] = [(await source.read(0))!, (await source.read(1))!];
  expect(shared.put(0, last)).toBe(false);
  expect(shared.put(1, first)).toBe(false);
  const damaged = last.slice();
  damaged[6]! ^= 1;
  expect(shared.put(1, damaged)).toBe(false);
  expect(shared.heldBytes).toBe(0);
  expect(shared.put(1, last)).toBe(true);
  expect(shared.put(1, last)).toBe(true);
  expect(shared.heldBytes).toBe(7);
  expect(() => shared.files()).toThrow(/^a is incomplete: 1 of its slices are missing/);
  expect(shared.put(0, first)).toBe(true);
  expect(await contentOf(shared.files()[0]!)).toBe(await contentOf(fileOf('a', FILE_SLICE_BYTES + 7)));
});

test('slice hashes that do not match the manifest are rejected', async () => {
  const source = await chosen(fileOf('a', 10), fileOf('b', 10, 2));
  const shared = SharedFileSlices.awaited(source.manifest);
  const half = source.digests!.length / 2;
  expect(() => shared.setDigests(source.digests!.slice(half) + source.digests!.slice(0, half))).toThrow(/slices of a /);
  expect(() => shared.setDigests('')).toThrow(DataError);
});

test('a slice is not sent if it has changed since its file was chosen', async () => {
  const { file, change } = changingFile('a', 2 * FILE_SLICE_BYTES);
  const shared = await chosen(file);
  change();
  expect(await shared.read(0)).toBeNull();
  expect(shared.has(0)).toBe(false);
  expect(shared.heldBytes).toBe(FILE_SLICE_BYTES);
  expect(await shared.read(1)).toHaveLength(FILE_SLICE_BYTES);
  await expect(chosen(file)).rejects.toThrow(/^a could not be read \(it has changed\)\. Choose the file again/);
});

test('too many files, files with equal names, and too long names are rejected', async () => {
  const many = Array.from({ length: 65 }, (_, i) => fileOf(`${i}`, 1));
  await expect(chosen(...many)).rejects.toThrow(/65 files, but at most 64/);
  await expect(chosen(fileOf('a', 1), fileOf('a', 2))).rejects.toThrow(/Two files are called a/);
  await expect(chosen(fileOf('a'.repeat(201), 1))).rejects.toThrow(/longer than 200/);
});

const fileAt = (shared: SharedFileSlices, at: number) => shared.stored()[at]!.place.file;

describe('a part of a file', () => {
  const SIZE = 3 * FILE_SLICE_BYTES + 100;

  async function pair(): Promise<{
    source: SharedFileSlices;
    shared: SharedFileSlices;
    give: (slice: number) => Promise<void>;
  }> {
    const source = await chosen(fileOf('a', FILE_SLICE_BYTES + 1), fileOf('b', SIZE, 2));
    const shared = SharedFileSlices.awaited(source.manifest);
    shared.setDigests(source.digests!);
    shared.begin();
    const give = async (slice: number): Promise<void> => void shared.put(slice, (await source.read(slice))!);
    return { source, shared, give };
  }

  test('is read as soon as its slices are here', async () => {
    const { shared, give } = await pair();
    const file = fileAt(shared, 1);
    const [start, end] = [FILE_SLICE_BYTES - 1, FILE_SLICE_BYTES + 1];
    const read = file.range(start, end).then(contentOf);
    await give(3);
    expect(file.has(start, end)).toBe(false);
    await give(2);
    expect(file.has(start, end)).toBe(true);
    expect(await read).toBe(await contentOf(fileOf('b', SIZE, 2).slice(start, end)));
    expect((await file.range(0, 0)).size).toBe(0);
  });

  test('is at most the whole file', async () => {
    const { source } = await pair();
    const [, b] = source.stored();
    expect(await contentOf(await b!.blob())).toBe(await contentOf(fileOf('b', SIZE, 2)));
    expect(await contentOf(await b!.place.file.range(FILE_SLICE_BYTES, SIZE))).toBe(
      await contentOf(fileOf('b', SIZE, 2).slice(FILE_SLICE_BYTES)),
    );
  });

  test('cannot be read after the distribution has ended without it, until another one begins', async () => {
    const { shared, give } = await pair();
    const file = fileAt(shared, 0);
    const ended = new Error('The distribution has ended.');
    const early = file.range(0, 10);
    shared.end(ended);
    await expect(early).rejects.toBe(ended);
    await expect(file.range(0, 10)).rejects.toBe(ended);
    shared.begin();
    const later = file.range(0, 10);
    await give(0);
    expect((await later).size).toBe(10);
  });

  test('of a changed file is not read once the change has been found', async () => {
    const { file, change } = changingFile('a', 2 * FILE_SLICE_BYTES);
    const shared = await chosen(file);
    shared.end(new DataError('Choose the files again.'));
    change();
    await shared.read(0);
    await expect(fileAt(shared, 0).range(0, 10)).rejects.toThrow('Choose the files again.');
  });
});
