import { afterEach, expect, test, vi } from 'vitest';
import { isPictureStoreFast, PictureStore } from '../../../src/jobs/images/pictureStore.ts';
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

interface FakeFile {
  file: MemoryFile;
  lastModified: number;
  size: number;
  isOpen: boolean;
}

/** Returns the files of a fake private directory, which has `quota` bytes. */
function fakeDirectory(userAgent: string, quota: number, files = new Map<string, FakeFile>()): Map<string, FakeFile> {
  class FileHandle {
    readonly name: string;
    constructor(name: string) {
      this.name = name;
    }
    getFile(): Promise<Pick<File, 'name' | 'size' | 'lastModified'>> {
      const { lastModified, size } = files.get(this.name)!;
      return Promise.resolve({ name: this.name, size, lastModified });
    }
    createSyncAccessHandle(): Promise<MemoryFile> {
      const own = files.get(this.name)!;
      own.isOpen = true;
      return Promise.resolve(own.file);
    }
  }
  const directory = {
    getDirectoryHandle: () => Promise.resolve(directory),
    getFileHandle: (name: string) => {
      const own = files.get(name) ?? { file: new MemoryFile(), lastModified: Date.now(), size: 0, isOpen: false };
      files.set(name, own);
      return Promise.resolve(new FileHandle(name));
    },
    removeEntry: (name: string) => {
      if (files.get(name)!.isOpen) return Promise.reject(new DOMException('In use.', 'NoModificationAllowedError'));
      files.delete(name);
      return Promise.resolve();
    },
    async *values() {
      for (const name of files.keys()) yield new FileHandle(name);
    },
  };
  vi.stubGlobal('FileSystemFileHandle', FileHandle);
  vi.stubGlobal('navigator', {
    userAgent,
    storage: { getDirectory: () => Promise.resolve(directory), estimate: () => Promise.resolve({ quota }) },
  });
  return files;
}

afterEach(() => vi.unstubAllGlobals());

test('a new version of the browser has a file of its own, because it may decode differently', async () => {
  const files = fakeDirectory('Browser/1', Infinity);
  await PictureStore.open('pictures', BYTES);
  await PictureStore.open('pictures', BYTES);
  expect(files.size).toBe(1);
  fakeDirectory('Browser/2', Infinity, files);
  await PictureStore.open('pictures', BYTES);
  expect(files.size).toBe(2);
});

test.each([
  ['a quarter of the quota', 8 * 1024 ** 3, 1024 ** 3],
  ['4 GiB', Infinity, 2 * 1024 ** 3],
])('the oldest files are removed if all files have more than %s, but none that a tab uses', async (_, quota, size) => {
  const files = fakeDirectory('Browser/1', quota);
  const now = Date.now();
  const fileOf = (age: number, fields: Partial<FakeFile> = {}): FakeFile => ({
    ...{ file: new MemoryFile(), lastModified: now - age, size, isOpen: false },
    ...fields,
  });
  for (const [name, age] of [['new', 1], ['older', 3], ['old', 2], ['oldest', 4]] as const) files.set(name, fileOf(age)); // prettier-ignore
  files.set('used', fileOf(5, { isOpen: true }));
  files.set('week', fileOf(8 * 24 * 60 * 60_000, { size: 0 }));
  await PictureStore.open('pictures', BYTES);
  expect([...files.keys()].filter((name) => name.length < 10)).toEqual(['new', 'old', 'used']);
});

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

test('pictures beyond the given number of bytes are not stored', () => {
  const store = new PictureStore(new MemoryFile(1000), BYTES, 12 + BYTES);
  store.write(0, picture(7));
  store.write(1, picture(8));
  expect([store.read(0), store.read(1)]).toEqual([picture(7), null]);
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
  expect(isPictureStoreFast({ read }, () => time)).toBe(isUsed);
});

test.each([0.1, 1, 50 / 3, 100])('a clock that advances by %d ms at once gives the same decision', (tick) => {
  const decisions = (ms: number): Set<boolean> =>
    new Set(
      Array.from({ length: 20 }, (_, i) => {
        let time = (i * tick) / 20;
        const read = (): number => {
          time += ms;
          return 0;
        };
        return isPictureStoreFast({ read }, () => Math.floor(time / tick) * tick);
      }),
    );
  expect([0.02, 0.3, 0.8, 2].map((ms) => [...decisions(ms)])).toEqual([[true], [true], [false], [false]]);
});

test('a file is used although other work delays most of its accesses', () => {
  let [time, accesses] = [0, 0];
  const read = (): number => {
    time += accesses++ === 5 ? 0.1 : 20;
    return 0;
  };
  expect(isPictureStoreFast({ read }, () => time)).toBe(true);
});
