/**
 * Decoded pictures in a file of the browser's private file system (OPFS), so that they are decoded
 * once. All tabs of a browser share the file, and it is kept when a tab is reloaded.
 */
import { crc32 } from '../../util/crc32.ts';

/** Says which file has the pictures. */
export interface StoreKey {
  /** A hash of the names, sizes and versions of the picture files, and of the size in pixels. */
  readonly name: string;
  /** Number of pictures. */
  readonly count: number;
}

/** Pixels, and the CRC-32 of the picture's file. */
interface Stored {
  pixels: Uint8Array<ArrayBuffer>;
  crc: number;
}

/** The name of the OPFS directory. */
const DIRECTORY = 'peergrad-pictures';
/** Pictures that would lie behind this byte of the file are not stored. */
const MAX_BYTES = 4 * 1024 ** 3;
/** A file that was not changed for so long is removed. */
const KEPT_MS = 7 * 24 * 60 * 60_000;
/** Each picture has this number of numbers at the start of the file: a mark and two checksums. */
const NUMBERS = 3;
const MARK = 0x70677078;

/** Declares a method that exists only in workers. The types of pages do not have it. */
interface WorkerFileHandle extends FileSystemFileHandle {
  createSyncAccessHandle(options: { mode: 'readwrite-unsafe' }): Promise<SyncAccessHandle>;
}

/** The part of `FileSystemSyncAccessHandle` that is used. */
export interface SyncAccessHandle {
  read(into: Uint8Array | Uint32Array, options: { at: number }): number;
  write(bytes: Uint8Array | Uint32Array, options: { at: number }): number;
}

export class PictureStore {
  readonly #file: SyncAccessHandle;
  readonly #count: number;
  readonly #bytes: number;
  #isFull = false;

  /** @param bytes bytes of a decoded picture. */
  constructor(file: SyncAccessHandle, count: number, bytes: number) {
    this.#file = file;
    this.#count = count;
    this.#bytes = bytes;
  }

  /**
   * Opens the file. Resolves with `null` if this browser has no such files, if it does not let
   * several tabs use one file, or if its storage is blocked.
   */
  static async open({ name, count }: StoreKey, bytes: number): Promise<PictureStore | null> {
    try {
      const root = await navigator.storage.getDirectory();
      const directory = await root.getDirectoryHandle(DIRECTORY, { create: true });
      await removeOld(directory, Date.now() - KEPT_MS);
      const handle = (await directory.getFileHandle(name, { create: true })) as WorkerFileHandle;
      return new PictureStore(await handle.createSyncAccessHandle({ mode: 'readwrite-unsafe' }), count, bytes);
    } catch {
      return null;
    }
  }

  /** Returns a picture; `null` if it is not stored, or was not stored completely. */
  read(at: number): Stored | null {
    const numbers = new Uint32Array(NUMBERS);
    if (this.#file.read(numbers, { at: at * numbers.byteLength }) < numbers.byteLength) return null;
    const [mark, crc, checksum] = numbers;
    if (mark !== MARK) return null;
    const pixels = new Uint8Array(this.#bytes);
    const length = this.#file.read(pixels, { at: this.#placeOf(at) });
    return length === this.#bytes && crc32(pixels) === checksum ? { pixels, crc: crc! } : null;
  }

  /** Stores a picture, unless the storage is full. Pictures that are stored remain readable. */
  write(at: number, { pixels, crc }: Stored): void {
    const place = this.#placeOf(at);
    if (this.#isFull || place + this.#bytes > MAX_BYTES) return;
    try {
      const isWritten = this.#file.write(pixels, { at: place }) === pixels.length;
      const numbers = Uint32Array.of(MARK, crc, crc32(pixels));
      if (isWritten) this.#file.write(numbers, { at: at * numbers.byteLength });
    } catch {
      // The quota is used up. Further pictures are decoded again.
      this.#isFull = true;
    }
  }

  #placeOf(at: number): number {
    return this.#count * NUMBERS * Uint32Array.BYTES_PER_ELEMENT + at * this.#bytes;
  }
}

/** Removes files that were last written before `limit`, in milliseconds since 1970. */
async function removeOld(directory: FileSystemDirectoryHandle, limit: number): Promise<void> {
  for await (const handle of directory.values()) {
    if (handle instanceof FileSystemFileHandle && (await handle.getFile()).lastModified < limit) {
      await directory.removeEntry(handle.name).catch(() => {});
    }
  }
}
