/**
 * A file that is read in blocks on demand. The most recently used blocks stay in memory, up to a
 * limit. Small files are therefore read only once.
 */
import { DataError, errorMessageOf } from '../util/errors.ts';

/**
 * Bytes per block. Blocks are small enough to contain few samples, and large enough that reading a
 * whole file takes few reads.
 */
const BLOCK_BYTES = 64 * 1024;
/** Maximum number of bytes of one file that stay in memory. */
const KEPT_BYTES = 64 * 1024 * 1024;

/** The part of a Blob's interface that reads bytes. A file on a server implements it, too. */
export interface ByteSource {
  readonly size: number;
  slice(start: number, end: number): ByteSource;
  arrayBuffer(): Promise<ArrayBuffer>;
}

export class PartialFile {
  /** The file's name, for errors. */
  readonly name: string;
  readonly size: number;
  readonly #bytes: ByteSource;
  /** Blocks by their index in the file. The least recently used block is first. */
  readonly #blocks = new Map<number, Promise<Uint8Array<ArrayBuffer>>>();

  constructor(name: string, bytes: ByteSource) {
    this.name = name;
    this.size = bytes.size;
    this.#bytes = bytes;
  }

  /**
   * Reads bytes from..to-1, or fewer if the file ends before `to`.
   *
   * @throws (rejects) DataError if the file can no longer be read.
   */
  async read(from: number, to: number): Promise<Uint8Array<ArrayBuffer>> {
    const end = Math.min(to, this.size);
    const first = Math.floor(from / BLOCK_BYTES);
    const count = Math.max(0, Math.ceil(end / BLOCK_BYTES) - first);
    if (count === 1) return (await this.#block(first)).subarray(from - first * BLOCK_BYTES, end - first * BLOCK_BYTES);
    const out = new Uint8Array(Math.max(0, end - from));
    const blocks = await Promise.all(Array.from({ length: count }, (_, i) => this.#block(first + i)));
    for (const [i, block] of blocks.entries()) {
      const at = (first + i) * BLOCK_BYTES;
      out.set(block.subarray(Math.max(0, from - at), end - at), Math.max(0, at - from));
    }
    return out;
  }

  #block(number: number): Promise<Uint8Array<ArrayBuffer>> {
    const block =
      this.#blocks.get(number) ??
      readByteRange(this.name, this.#bytes, number * BLOCK_BYTES, (number + 1) * BLOCK_BYTES);
    this.#blocks.delete(number);
    this.#blocks.set(number, block);
    if (this.#blocks.size * BLOCK_BYTES > KEPT_BYTES) this.#blocks.delete(this.#blocks.keys().next().value!);
    return block;
  }
}

/**
 * Reads bytes from..to-1 of a file, or fewer if it ends before `to`.
 *
 * @throws (rejects) DataError if the file can no longer be read.
 */
export async function readByteRange(
  name: string,
  bytes: ByteSource,
  from: number,
  to: number,
): Promise<Uint8Array<ArrayBuffer>> {
  try {
    return new Uint8Array(await bytes.slice(from, to).arrayBuffer());
  } catch (cause) {
    if (cause instanceof DataError) throw cause;
    throw new DataError(
      `${name} could not be read from byte ${from} on (${errorMessageOf(cause)}). If it was changed or moved, choose it again.`,
      {},
      { cause },
    );
  }
}
