/** Splits the bytes of a CSV file, which are received in chunks, into records and fields. */
import { DataError } from '../util/errors.ts';
import { canonicalText } from './classNames.ts';
import { adviseOnTextEncoding } from './textEncoding.ts';

/** A position in a file, and the number of its line. */
export interface CsvRecordsStart {
  offset: number;
  line: number;
  /** The separator that is stated in a line before the first record; `null` without such a line. */
  separator: string | null;
}

/**
 * Maximum length of a record. A longer record is usually the result of a quote that was never
 * closed.
 */
const MAX_RECORD_BYTES = 1024 * 1024;
/** Longer fields are decoded by a TextDecoder, which takes more time for each field. */
const SHORT_BYTES = 24;
const [LF, CR, QUOTE, SPACE, TAB] = [0x0a, 0x0d, 0x22, 0x20, 0x09];

/** How a field is written: without quotes, in quotes, or in quotes with doubled quotes inside. */
const [PLAIN, QUOTED, DOUBLED] = [0, 1, 2];

/**
 * The record that was found last. For speed, there is one object for all records of a file: it is
 * overwritten by the next record.
 */
export class CsvRecords {
  readonly #name: string;
  readonly #separator: number;
  readonly #decoder = new TextDecoder('utf-8', { fatal: true });
  /** For each byte, 1 if it ends a field without quotes. */
  readonly #ends = new Uint8Array(256);
  /** The bytes that are searched. Fields are given by their positions in them. */
  bytes: Uint8Array = new Uint8Array(0);
  /** For each field, its first byte and the byte after it, without quotes around the field. */
  starts = new Int32Array(64);
  ends = new Int32Array(64);
  #kinds = new Uint8Array(64);
  /** Number of fields of the record. */
  count = 0;
  /** The line at which the record begins. */
  line = 1;
  #at: number;
  #nextLine: number;
  #wasCr = false;
  /** Whether no bytes follow. */
  #isLast = false;
  /** Offset of `bytes` in the text. */
  #offset = 0;

  constructor(name: string, separator: string, { offset, line }: CsvRecordsStart) {
    this.#name = name;
    this.#separator = separator.charCodeAt(0);
    this.#at = offset;
    this.#nextLine = line;
    for (const byte of [LF, CR, this.#separator]) this.#ends[byte] = 1;
  }

  /** Appends a chunk to the bytes that are not part of a record yet. */
  add(chunk: Uint8Array, isLast: boolean): void {
    const zero = chunk.indexOf(0);
    if (zero !== -1) {
      const at = this.#offset + this.bytes.length + zero;
      throw new DataError(`${this.#name} is not text: byte ${at} is 0. Export the table as CSV in UTF-8.`);
    }
    const rest = this.bytes.subarray(this.#at);
    if (rest.length > MAX_RECORD_BYTES) throw this.unclosed();
    this.#isLast = isLast;
    if (this.bytes.length === 0) {
      this.bytes = chunk;
      return;
    }
    this.#offset += this.#at;
    this.#at = 0;
    const bytes = new Uint8Array(rest.length + chunk.length);
    bytes.set(rest);
    bytes.set(chunk, rest.length);
    this.bytes = bytes;
  }

  /**
   * Finds the next record. Empty lines are skipped. Returns `false` if the bytes do not contain a
   * complete record.
   *
   * @throws DataError if quotes are malformed.
   */
  next(): boolean {
    const { bytes } = this;
    const separator = this.#separator;
    const isEnd = this.#ends;
    const end = bytes.length;
    let at = this.#skipLines();
    if (at === end) return false;
    let line = this.#nextLine;
    this.line = line;
    this.count = 0;
    for (;;) {
      let from = at;
      let to: number;
      let kind = PLAIN;
      if (bytes[at] === QUOTE && at < end) {
        kind = QUOTED;
        from = ++at;
        for (; at < end; at++) {
          const byte = bytes[at]!;
          if (byte === QUOTE) {
            if (bytes[at + 1] !== QUOTE) break;
            kind = DOUBLED;
            at++;
          } else if (byte === CR || (byte === LF && bytes[at - 1] !== CR)) line++;
        }
        to = at++;
        if (at > end && this.#isLast) throw this.unclosed();
        // Spaces between the closing quote and a separator are ignored.
        let next = at;
        while (next < end && (bytes[next] === SPACE || bytes[next] === TAB) && bytes[next] !== separator) next++;
        if (next >= end && !this.#isLast) return false;
        if (bytes[next] === separator) at = next;
        else if (at < end && isEnd[bytes[at]!] === 0) {
          throw new DataError(
            `${this.#name}, line ${this.line}: text follows the closing quote of a field. Double each quote inside a quoted field.`,
          );
        }
      } else {
        while (at < end && isEnd[bytes[at]!] === 0) at++;
        if (at === end && !this.#isLast) return false;
        to = at;
      }
      if (this.count === this.starts.length) this.#grow();
      this.starts[this.count] = from;
      this.ends[this.count] = to;
      this.#kinds[this.count++] = kind;
      if (at === end) break;
      const byte = bytes[at++]!;
      if (byte === separator) continue;
      line++;
      this.#wasCr = byte === CR;
      break;
    }
    this.#at = at;
    this.#nextLine = line;
    return true;
  }

  /** Skips line ends, and returns the position of the next record. CR LF is one line end. */
  #skipLines(): number {
    const { bytes } = this;
    for (; this.#at < bytes.length; this.#at++) {
      const byte = bytes[this.#at]!;
      if (byte !== LF && byte !== CR) break;
      if (byte === CR || !this.#wasCr) this.#nextLine++;
      this.#wasCr = byte === CR;
    }
    return this.#at;
  }

  #grow(): void {
    const [starts, ends, kinds] = [this.starts, this.ends, this.#kinds];
    this.starts = new Int32Array(2 * starts.length);
    this.ends = new Int32Array(2 * starts.length);
    this.#kinds = new Uint8Array(2 * starts.length);
    this.starts.set(starts);
    this.ends.set(ends);
    this.#kinds.set(kinds);
  }

  /** Removes the first field of the record. */
  dropFirst(): void {
    this.starts.copyWithin(0, 1, this.count);
    this.ends.copyWithin(0, 1, this.count);
    this.#kinds.copyWithin(0, 1, this.count);
    this.count--;
  }

  /** Returns whether the bytes between `starts` and `ends` are the text of the field. */
  isVerbatim(i: number): boolean {
    return this.#kinds[i] !== DOUBLED;
  }

  isQuoted(i: number): boolean {
    return this.#kinds[i] !== PLAIN;
  }

  /**
   * Returns a field in its {@link canonicalText} form.
   *
   * @throws DataError if the text is not UTF-8.
   */
  field(i: number): string {
    const text = this.#decode(this.starts[i]!, this.ends[i]!);
    return this.#kinds[i] === DOUBLED ? text.replaceAll('""', '"') : text;
  }

  fields(): string[] {
    return Array.from({ length: this.count }, (_, i) => this.field(i));
  }

  #decode(from: number, to: number): string {
    const ascii = to - from <= SHORT_BYTES ? asciiTextOf(this.bytes, from, to) : null;
    if (ascii !== null) return ascii;
    try {
      return canonicalText(this.#decoder.decode(this.bytes.subarray(from, to)));
    } catch (cause) {
      throw new DataError(
        `${this.#name}, line ${this.line}: the text is not UTF-8. ${adviseOnTextEncoding(this.bytes)}.`,
        {},
        { cause },
      );
    }
  }

  unclosed(): DataError {
    return new DataError(
      `${this.#name}, line ${this.#nextLine}: a quote that is opened in this record is never closed. Close it, or double it if it is part of the text.`,
    );
  }
}

/**
 * Returns bytes as text; `null` if they are not all ASCII. For short texts, this is the fastest
 * way.
 */
export function asciiTextOf(bytes: Uint8Array, from: number, to: number): string | null {
  let text = '';
  for (let at = from; at < to; at++) {
    if (bytes[at]! >= 0x80) return null;
    text += String.fromCharCode(bytes[at]!);
  }
  return text;
}
