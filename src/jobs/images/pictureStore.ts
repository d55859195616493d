/**
 * Decoded pictures in a file of the browser's private file system (OPFS), so that they are decoded
 * once. All tabs of a browser share the file, and it is kept when a tab is reloaded.
 */
import { PICTURE_DECODER_VERSION } from '../../formats/decodePicture.ts';
import { crc32 } from '../../util/crc32.ts';
import { hashOfArrays } from '../../util/hash.ts';
import {
  openPrivateFile,
  privateDirectory,
  removeOldPrivateFiles,
  type SyncAccessHandle,
} from '../../util/privateFiles.ts';

/** Pixels, and the CRC-32 of the picture's file. */
interface StoredPicture {
  pixels: Uint8Array<ArrayBuffer>;
  crc: number;
}

/** The name of the OPFS directory. */
const DIRECTORY = 'peergrad-pictures';
/** The largest number of bytes of a file. */
const MAX_BYTES = 4 * 1024 ** 3;
/** A file that was not changed for this number of milliseconds is removed. */
const KEPT_MS = 7 * 24 * 60 * 60_000;
/**
 * If all files together have more bytes than one file may have, or than this share of the storage,
 * the oldest are removed.
 */
const SHARE_OF_QUOTA = 1 / 4;
/** Before its pixels, each picture has three numbers: a mark and two checksums. */
const HEAD_BYTES = 3 * Uint32Array.BYTES_PER_ELEMENT;
const MARK = 0x70677078;

export class PictureStore {
  readonly #file: Pick<SyncAccessHandle, 'read' | 'write'>;
  /** A picture as it is in the file. Reused, because new memory would not be freed at once. */
  readonly #record: Uint8Array<ArrayBuffer>;
  readonly #mostBytes: number;
  #isFull = false;

  /** @param mostBytes pictures that would lie behind this byte of the file are not stored. */
  constructor(file: Pick<SyncAccessHandle, 'read' | 'write'>, bytes: number, mostBytes = MAX_BYTES) {
    this.#file = file;
    this.#mostBytes = mostBytes;
    this.#record = new Uint8Array(HEAD_BYTES + bytes);
  }

  /**
   * Opens the file of some pictures. Resolves with `null` if this browser has no such files, if it
   * does not let several tabs use one file, or if its storage is blocked or slow.
   *
   * @param name a hash of the names, sizes and versions of the picture files, and of the size in
   *   pixels.
   */
  static async open(name: string, bytes: number): Promise<PictureStore | null> {
    try {
      const directory = await privateDirectory(DIRECTORY);
      // Browsers do not share files, but the next version of a browser may decode differently.
      const decoder = JSON.stringify([PICTURE_DECODER_VERSION, navigator.userAgent]);
      const { quota = Infinity } = await navigator.storage.estimate();
      const mostBytes = Math.min(MAX_BYTES, quota * SHARE_OF_QUOTA);
      const file = await openPrivateFile(directory, hashOfArrays([new TextEncoder().encode(name + decoder)]), true);
      // Another worker may do the same at the same time.
      await removeOldPrivateFiles(directory, Date.now() - KEPT_MS, mostBytes).catch(() => {});
      if (isPictureStoreFast(file, () => performance.now())) return new PictureStore(file, bytes, mostBytes);
      file.close();
      return null;
    } catch {
      return null;
    }
  }

  /** Returns a picture; `null` if it is not stored, or was not stored completely. */
  read(at: number): StoredPicture | null {
    const record = this.#record;
    try {
      if (this.#file.read(record, { at: at * record.length }) < record.length) return null;
    } catch {
      // The browser has removed the file, for example because the user has cleared the site's data.
      return null;
    }
    const [mark, crc, checksum] = new Uint32Array(record.buffer, 0, 3);
    const isWhole = mark === MARK && crc32(record.subarray(HEAD_BYTES)) === checksum;
    return isWhole ? { pixels: record.slice(HEAD_BYTES), crc: crc! } : null;
  }

  /** Stores a picture, unless the storage is full. Pictures that are stored remain readable. */
  write(at: number, { pixels, crc }: StoredPicture): void {
    const record = this.#record;
    if (this.#isFull || (at + 1) * record.length > this.#mostBytes) return;
    new Uint32Array(record.buffer, 0, 3).set([MARK, crc, crc32(pixels)]);
    record.set(pixels, HEAD_BYTES);
    try {
      this.#isFull = this.#file.write(record, { at: at * record.length }) < record.length;
    } catch {
      // The quota is used up. Further pictures are decoded again.
      this.#isFull = true;
    }
  }
}

/** Number of measurements, and maximum milliseconds for an access in the fastest of them. */
const [PROBES, MOST_MS] = [16, 0.5];
/** No measurement begins after this number of milliseconds. */
const MEASURED_MS = 400;
/** If the clock is too coarse for one access, accesses are timed together, for some ticks. */
const [TICKS, MOST_TOGETHER] = [4, 1000];

/**
 * Returns whether reading a picture takes less time than decoding it. In a private window, each
 * access is a message to another process, which takes milliseconds. On a busy machine, some
 * accesses are slow in every window, so the fastest one decides.
 *
 * @param now returns the time in milliseconds.
 */
export function isPictureStoreFast(file: Pick<SyncAccessHandle, 'read'>, now: () => number): boolean {
  const from = now();
  let fastest = Infinity;
  for (let i = 0; i < PROBES && now() - from < MEASURED_MS; i++) fastest = Math.min(fastest, timeOfAccess(file, now));
  return fastest <= MOST_MS;
}

/** Returns the milliseconds of an access. */
function timeOfAccess(file: Pick<SyncAccessHandle, 'read'>, now: () => number): number {
  const startedAt = now();
  const head = new Uint8Array(HEAD_BYTES);
  let tick = 0;
  for (let accesses = 1; ; accesses++) {
    file.read(head, { at: 0 });
    const ms = now() - startedAt;
    if (tick === 0) tick = ms;
    const isEnough = ms > 0 && (accesses === 1 || ms >= TICKS * tick);
    if (isEnough || accesses === MOST_TOGETHER) return ms / accesses;
  }
}
