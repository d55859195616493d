import { expect, test } from 'vitest';
import { isFast, PictureStore } from '../../../src/jobs/images/pictureStore.ts';
import type { SyncAccessHandle } from '../../../src/util/privateFiles.ts';

const BYTES = 12;
const picture = (value: number): { pixels: Uint8Array<ArrayBuffer>; crc: number } => ({
  pixels: new Uint8Array(BYTES).fill(value),
  crc: 4_000_000_000 + value,
});

/** A file in memory. A write beyond `quota` bytes fails. */
class MemoryFile implements Pick<SyncAccessHandle, 'read' | 'write'> {
  bytes = new Uint8Array();
  readonly quota: number;

  constructor(quota = Infinity) {
    this.quota = quota;
  }

  read(into: ArrayBufferView, { at }: { at: number }): number {
    const own = this.bytes.subarray(at, at + into.byteLength);
    new Uint8Array(into.buffer, into.byteOffset, into.byteLength).set(own);
    return own.length;
  }

  write(from: ArrayBufferView, { at }: { at: number }): number {
    if (at + from.byteLength > this.quota) throw new DOMException('Full.', 'QuotaExceededError');
    const grown = new Uint8Array(Math.max(this.bytes.length, at + from.byteLength));
    grown.set(this.bytes);
    grown.set(new Uint8Array(from.buffer, from.byteOffset, from.byteLength), at);
    this.bytes = grown;
    return from.byteLength;
  }
}

test('a picture that one tab has stored can be read by another tab', () => {
  const file = new MemoryFile();
  const [one, other] = [new PictureStore(file, BYTES), new PictureStore(file, BYTES)];
  one.write(4, picture(7));
  one.write(8, picture(3));
  expect([other.read(4), other.read(8)]).toEqual([picture(7), picture(3)]);
  expect([other.read(0), other.read(5)]).toEqual([null, null]);
});

test('a picture that is incomplete or damaged is not returned', () => {
  const file = new MemoryFile();
  const store = new PictureStore(file, BYTES);
  store.write(1, picture(7));
  file.bytes[file.bytes.length - 1]! ^= 1;
  expect(store.read(1)).toBeNull();
  file.bytes = file.bytes.slice(0, -5);
  expect(store.read(1)).toBeNull();
});

test('if the storage is full, earlier pictures remain readable and later ones are not stored', () => {
  const file = new MemoryFile(12 + BYTES);
  const store = new PictureStore(file, BYTES);
  store.write(0, picture(7));
  store.write(1, picture(8));
  expect([store.read(0), store.read(1)]).toEqual([picture(7), null]);
});

test.each([
  [0.1, true],
  [2, false],
])('a file whose accesses take %d ms is used: %s', (ms, isUsed) => {
  let time = 0;
  const read = (): number => {
    time += ms;
    return 0;
  };
  expect(isFast({ read }, () => time)).toBe(isUsed);
});
