/**
 * A file that is read in parts, wherever somebody asks. The blocks asked for last stay in memory,
 * up to a bound: a file that fits is read once, and one that does not is streamed.
 */
import { DataError, messageOf } from '../../util/errors.ts';

/** Bytes read at once: a few samples' worth, and enough that a whole file takes few reads. */
const BLOCK_BYTES = 64 * 1024;
/** What one file may keep in memory. */
const KEPT_BYTES = 64 * 1024 * 1024;

export class PartialFile {
  /** For errors. */
  readonly name: string;
  readonly size: number;
  readonly #blob: Blob;
  /** By number, the one asked for last at the end. */
  readonly #blocks = new Map<number, Promise<Uint8Array<ArrayBuffer>>>();

  constructor(name: string, blob: Blob) {
    this.name = name;
    this.size = blob.size;
    this.#blob = blob;
  }

  /**
   * Bytes from..to-1, fewer where the file ends before.
   *
   * @throws (rejects) DataError where the file cannot be read any more.
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
    const block = this.#blocks.get(number) ?? this.#readBlock(number);
    this.#blocks.delete(number);
    this.#blocks.set(number, block);
    if (this.#blocks.size * BLOCK_BYTES > KEPT_BYTES) this.#blocks.delete(this.#blocks.keys().next().value!);
    return block;
  }

  async #readBlock(number: number): Promise<Uint8Array<ArrayBuffer>> {
    const from = number * BLOCK_BYTES;
    try {
      return new Uint8Array(await this.#blob.slice(from, from + BLOCK_BYTES).arrayBuffer());
    } catch (cause) {
      throw new DataError(
        `${this.name} could not be read from byte ${from} on (${messageOf(cause)}): if it was changed or moved, choose it again.`,
        {},
        { cause },
      );
    }
  }
}
