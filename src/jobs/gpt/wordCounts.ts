/**
 * Splits a text into words and numbers them. A word has the space before it; any other whitespace
 * character is a word of its own. A text without spaces is cut into words of the maximum length.
 * Words are found in a hash table by their bytes in UTF-8, because strings of them would take
 * several times as long.
 */
import { encodeUtf8, MAX_CHARACTER_BYTES } from '../../formats/utf8.ts';

const SPACE = 0x20;
/** For each code point up to 0xffff: 1 if `\s` of a regular expression matches it, otherwise 0. */
const IS_WHITESPACE = new Uint8Array(0x10000);
IS_WHITESPACE.fill(1, 0x9, 0xe).fill(1, 0x2000, 0x200b);
for (const code of [SPACE, 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000, 0xfeff]) IS_WHITESPACE[code] = 1;
/** Constants of the hash FNV-1a. */
const [FNV_START, FNV_PRIME] = [0x811c9dc5 | 0, 0x01000193];
/** Maximum number of characters of a word. The time for encoding a word grows with its square. */
const MAX_CHARACTERS = 256;
/** Number of words in one array. */
const CHUNK = 4096;

export class WordCounts {
  /** How often each different word occurs. Words are numbered in order of appearance. */
  readonly counts: number[] = [];
  /** The words of the text by their numbers. The last array is filled up to {@link #filled}. */
  readonly #chunks: Uint32Array[] = [];
  #filled = CHUNK;
  /** The different words one after the other, and then the word that has begun. */
  #bytes = new Uint8Array(CHUNK);
  /** The start of each different word in {@link #bytes}, and of the word that has begun. */
  readonly #starts: number[] = [0];
  #end = 0;
  readonly #hashes: number[] = [];
  #hash = FNV_START;
  /** Number of characters of the word that has begun. */
  #characters = 0;
  /** A hash table: numbers of words plus 1, or 0. */
  #table = new Uint32Array(256);

  /** @param characters the code points of the next characters of the text. */
  add(characters: Uint32Array): void {
    const most = this.#end + MAX_CHARACTER_BYTES * characters.length;
    if (most > this.#bytes.length) this.#bytes = enlarged(this.#bytes, 2 * most);
    let [end, hash, length] = [this.#end, this.#hash, this.#characters];
    const endWord = (): void => {
      [this.#end, this.#hash] = [end, hash];
      this.end();
      [end, hash, length] = [this.#end, this.#hash, 0];
    };
    for (let i = 0; i < characters.length; i++) {
      const code = characters[i]!;
      const isWhitespace = IS_WHITESPACE[code] === 1;
      if (isWhitespace) endWord();
      end = encodeUtf8(code, this.#bytes, end);
      hash = Math.imul(hash ^ code, FNV_PRIME);
      if ((isWhitespace && code !== SPACE) || ++length === MAX_CHARACTERS) endWord();
    }
    [this.#end, this.#hash, this.#characters] = [end, hash, length];
  }

  /** Ends the last word. */
  end(): void {
    const start = this.#starts.at(-1)!;
    if (this.#end === start) return;
    const number = this.#find(start);
    this.counts[number]! += 1;
    if (this.#filled === CHUNK) {
      this.#chunks.push(new Uint32Array(CHUNK));
      this.#filled = 0;
    }
    this.#chunks.at(-1)![this.#filled++] = number;
    this.#end = this.#starts.at(-1)!;
    this.#hash = FNV_START;
  }

  /** Number of bytes of all different words. */
  get bytes(): number {
    return this.#starts.at(-1)!;
  }

  /** Returns the bytes of a word in UTF-8. */
  bytesOf(number: number): Uint8Array {
    return this.#bytes.subarray(this.#starts[number], this.#starts[number + 1]);
  }

  /** Yields the words of the text by their numbers, many at a time. */
  *numbers(): Generator<Uint32Array> {
    for (const [i, chunk] of this.#chunks.entries()) {
      yield i + 1 < this.#chunks.length ? chunk : chunk.subarray(0, this.#filled);
    }
  }

  /** Returns the number of the word that has begun. It gets a number if it is new. */
  #find(start: number): number {
    const [table, hash] = [this.#table, this.#hash];
    const mask = table.length - 1;
    let slot = slotOf(hash, mask);
    for (; table[slot] !== 0; slot = (slot + 1) & mask) {
      const number = table[slot]! - 1;
      if (this.#hashes[number] === hash && this.#isEqual(number, start)) return number;
    }
    const number = this.counts.push(0) - 1;
    this.#hashes.push(hash);
    this.#starts.push(this.#end);
    table[slot] = number + 1;
    if (2 * this.counts.length > table.length) this.#enlargeTable();
    return number;
  }

  #isEqual(number: number, start: number): boolean {
    const [bytes, other] = [this.#bytes, this.#starts[number]!];
    const length = this.#end - start;
    if (this.#starts[number + 1]! - other !== length) return false;
    for (let i = 0; i < length; i++) if (bytes[other + i] !== bytes[start + i]) return false;
    return true;
  }

  #enlargeTable(): void {
    const table = new Uint32Array(2 * this.#table.length);
    const mask = table.length - 1;
    for (const [number, hash] of this.#hashes.entries()) {
      let slot = slotOf(hash, mask);
      while (table[slot] !== 0) slot = (slot + 1) & mask;
      table[slot] = number + 1;
    }
    this.#table = table;
  }
}

function slotOf(hash: number, mask: number): number {
  return (hash ^ (hash >>> 15)) & mask;
}

function enlarged(bytes: Uint8Array, length: number): Uint8Array<ArrayBuffer> {
  const larger = new Uint8Array(length);
  larger.set(bytes);
  return larger;
}
