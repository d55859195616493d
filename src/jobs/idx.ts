/**
 * Reader for IDX, the format of the MNIST files: two zero bytes, a type, the number of dimensions, each dimension as a
 * big-endian 32-bit integer, then the elements. Here: unsigned bytes of one or three dimensions, gzipped or not.
 *
 * Source: https://yann.lecun.com/exdb/mnist/ ("The IDX file format").
 */
import { DataError } from '../util/errors.ts';
import { hexOf } from '../util/hex.ts';
import { sizeOf } from '../util/shape.ts';

/** IDX's code for unsigned bytes. */
const TYPE_UINT8 = 0x08;
/** More is not a data set for a browser tab but a broken header or a gzip bomb. MNIST's largest file has 47 MB. */
export const MAX_IDX_BYTES = 512 * 1024 * 1024;

export interface IdxArray {
  /** [count] for labels, [count, height, width] for images. */
  readonly dims: readonly number[];
  /** All elements, the last dimension fastest. */
  readonly values: Uint8Array;
}

/**
 * Reads one IDX file of unsigned bytes. Whether it is gzipped is seen from its first bytes, not from its name: servers
 * may unpack `.gz` files on the way.
 *
 * @param name what to call the file in errors
 * @param dimensions 1 for labels, 3 for images
 * @throws DataError if it is not gzip though its name says so, not IDX of bytes with `dimensions` dimensions, longer than
 *   {@link MAX_IDX_BYTES}, or if bytes are missing or left over.
 */
export async function readIdx(name: string, bytes: Uint8Array<ArrayBuffer>, dimensions: 1 | 3): Promise<IdxArray> {
  const headerLength = 4 + 4 * dimensions;
  const collector = new Collector(name, dimensions, headerLength);
  if (bytes[0] === 0x1f && bytes[1] === 0x8b) await gunzip(name, bytes, (part) => collector.add(part));
  else if (name.endsWith('.gz') && !(bytes[0] === 0 && bytes[1] === 0)) {
    throw new DataError(
      `${name} is not gzip: it starts with ${hex(bytes.subarray(0, 2))}, where gzip has 1f 8b (and an unpacked IDX file ` +
        '00 00). It may be a web page saved under this name: download it again.',
    );
  } else collector.add(bytes);
  return collector.finish();
}

/** Takes a file in parts, so that what is no IDX file, or a gzip bomb, is found before all of it is unpacked. */
class Collector {
  readonly #name: string;
  readonly #dimensions: number;
  readonly #header: Uint8Array<ArrayBuffer>;
  #dims: number[] = [];
  #values: Uint8Array | null = null;
  #received = 0;

  constructor(name: string, dimensions: number, headerLength: number) {
    this.#name = name;
    this.#dimensions = dimensions;
    this.#header = new Uint8Array(headerLength);
  }

  add(bytes: Uint8Array): void {
    let part = bytes;
    const missing = this.#header.length - this.#received;
    if (missing > 0) {
      const head = part.subarray(0, missing);
      this.#header.set(head, this.#received);
      this.#received += head.length;
      part = part.subarray(head.length);
      if (this.#received >= 4) this.#checkMagic();
    }
    if (this.#received < this.#header.length) return;
    this.#values ??= this.#allocate();
    const at = this.#received - this.#header.length;
    if (at + part.length > this.#values.length) {
      throw new DataError(
        `${this.#name} is longer than its header says: ${this.#shape()} are ${this.#values.length} bytes, and more ` +
          'follow. The file is damaged: download it again.',
      );
    }
    this.#values.set(part, at);
    this.#received += part.length;
  }

  finish(): IdxArray {
    const values = this.#values;
    const expected = this.#header.length + (values?.length ?? 0);
    if (values === null || this.#received < expected) {
      throw new DataError(
        `${this.#name} ends too early: ${values === null ? 'its header has' : `${this.#shape()} and the header are`} ` +
          `${expected} bytes, and there are ${this.#received}. The download was cut off: download it again.`,
      );
    }
    return { dims: this.#dims, values };
  }

  #checkMagic(): void {
    const [a, b, type, dimensions] = this.#header;
    if (a === 0 && b === 0 && type === TYPE_UINT8 && dimensions === this.#dimensions) return;
    const kind = this.#dimensions === 1 ? 'labels' : 'images';
    throw new DataError(
      `${this.#name} is not an IDX file of ${kind}: it starts with ${hex(this.#header.subarray(0, 4))}, and ${kind} ` +
        `start with 00 00 08 0${this.#dimensions}. Check that images and labels were not swapped.`,
    );
  }

  #allocate(): Uint8Array {
    const view = new DataView(this.#header.buffer);
    this.#dims = Array.from({ length: this.#dimensions }, (_, i) => view.getUint32(4 + 4 * i));
    const length = sizeOf(this.#dims);
    if (length > MAX_IDX_BYTES) {
      throw new DataError(
        `${this.#name} announces ${this.#shape()}, more than the ${MAX_IDX_BYTES} bytes allowed. Choose a smaller set.`,
      );
    }
    return new Uint8Array(length);
  }

  #shape(): string {
    return `${this.#dims.join(' x ')} bytes`;
  }
}

/** Unpacks gzip with the platform's own decoder, handing on each part as it comes. */
async function gunzip(name: string, bytes: Uint8Array<ArrayBuffer>, add: (part: Uint8Array) => void): Promise<void> {
  const { readable, writable } = new DecompressionStream('gzip');
  const writer = writable.getWriter();
  // A fault in the data fails the write and the read alike; the read reports it.
  const written = writer.write(bytes).then(
    () => writer.close(),
    () => undefined,
  );
  written.catch(() => undefined);
  const reader = readable.getReader();
  for (;;) {
    let result: ReadableStreamReadResult<Uint8Array>;
    try {
      result = await reader.read();
    } catch (cause) {
      throw new DataError(
        `${name} cannot be unpacked: its gzip data is damaged or ends too early. Download it again.`,
        {},
        { cause },
      );
    }
    if (result.done) return;
    try {
      add(result.value);
    } catch (error) {
      await reader.cancel().catch(() => undefined);
      throw error;
    }
  }
}

function hex(bytes: Uint8Array): string {
  if (bytes.length === 0) return 'nothing (it is empty)';
  return hexOf(bytes, ' ');
}
