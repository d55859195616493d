/** Streams of bits, for codes of variable length. The first bit is the highest bit of a byte. */
import { PeergradError } from '../../util/errors.ts';

const BITS = 8;
const FIRST_BYTES = 1024;

export class BitWriter {
  #bytes = new Uint8Array(FIRST_BYTES);
  /** Number of bits that are written. */
  #length = 0;

  /** Writes the lowest `count` bits of `value`, the highest first. */
  write(value: number, count: number): void {
    for (let bit = count - 1; bit >= 0; bit--) {
      const byte = this.#length >>> 3;
      if (byte === this.#bytes.length) this.#grow();
      this.#bytes[byte]! |= ((value >>> bit) & 1) << (BITS - 1 - (this.#length & (BITS - 1)));
      this.#length += 1;
    }
  }

  /** Writes `value` ones and a zero. */
  writeUnary(value: number): void {
    for (let i = 0; i < value; i++) this.write(1, 1);
    this.write(0, 1);
  }

  /** All bits, with zeros at the end of the last byte. */
  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, Math.ceil(this.#length / BITS));
  }

  #grow(): void {
    const bytes = new Uint8Array(2 * this.#bytes.length);
    bytes.set(this.#bytes);
    this.#bytes = bytes;
  }
}

export class BitReader {
  /** The rank that has sent the bits. */
  readonly from: number;
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array, from: number) {
    this.from = from;
    this.#bytes = bytes;
  }

  /** @throws PeergradError if fewer than `count` bits are left. */
  read(count: number): number {
    let value = 0;
    for (let i = 0; i < count; i++, this.#at++) {
      const byte = this.#bytes[this.#at >>> 3];
      if (byte === undefined) {
        throw new PeergradError(
          `The payload of rank ${this.from} ends too early. Reload the page on every machine, so that all have the same version.`,
        );
      }
      value = (value << 1) | ((byte >>> (BITS - 1 - (this.#at & (BITS - 1)))) & 1);
    }
    return value;
  }

  /** Reads ones until a zero, and returns their number. */
  readUnary(): number {
    let value = 0;
    while (this.read(1) === 1) value += 1;
    return value;
  }
}
