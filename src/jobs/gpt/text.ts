/**
 * A text that is read in pieces, as often as needed. A single string could exceed the maximum
 * string length, and several copies of it would be in memory.
 */
import { DataError, messageOf } from '../../util/errors.ts';

export interface Text {
  /**
   * Yields the text from its start. No character is split between two pieces.
   *
   * @throws (rejects) DataError if a file cannot be read or is not UTF-8.
   */
  pieces(): AsyncIterable<string>;
}

/** Bytes per read. */
const PIECE_BYTES = 1024 * 1024;
/** Maximum number of bytes of a character in UTF-8. */
const MAX_CHARACTER_BYTES = 4;

/** Returns the text of `files`. They are sorted by name and joined by line ends. */
export function textOf(files: readonly File[], signal?: AbortSignal, pieceBytes = PIECE_BYTES): Text {
  const sorted = files.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return {
    async *pieces() {
      for (const [i, file] of sorted.entries()) {
        if (i > 0) yield '\n';
        for (let at = 0; at < file.size;) {
          signal?.throwIfAborted();
          const bytes = await bytesAt(file, at, pieceBytes);
          const whole = at + bytes.length === file.size ? bytes : bytes.subarray(0, bytes.length - begunBytes(bytes));
          yield decode(file.name, whole, at);
          at += whole.length;
        }
      }
    },
  };
}

/** Returns a text that is in memory. */
export function plainText(text: string): Text {
  return {
    async *pieces() {
      yield await Promise.resolve(text);
    },
  };
}

/** Yields code units from..to-1 of a text. */
export async function* stretchOf(text: Text, from: number, to: number): AsyncGenerator<string> {
  let at = 0;
  for await (const piece of text.pieces()) {
    if (at >= to) return;
    const part = piece.slice(Math.max(0, from - at), to - at);
    if (part !== '') yield part;
    at += piece.length;
  }
}

async function bytesAt(file: File, at: number, length: number): Promise<Uint8Array> {
  try {
    return new Uint8Array(await file.slice(at, at + length).arrayBuffer());
  } catch (cause) {
    throw new DataError(`${file.name} could not be read (${messageOf(cause)}). Choose it again.`, {}, { cause });
  }
}

/** Returns how many bytes at the end belong to an incomplete character. */
function begunBytes(bytes: Uint8Array): number {
  for (let back = 1; back < MAX_CHARACTER_BYTES && back < bytes.length; back++) {
    const byte = bytes[bytes.length - back]!;
    // This is a continuation byte, so the character starts before it.
    if (byte >> 6 === 0b10) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

/**
 * @param at offset of `bytes` in the file.
 * @throws DataError if the bytes are not UTF-8. The error names the first invalid byte.
 */
function decode(name: string, bytes: Uint8Array, at: number): string {
  if (isUtf8(bytes, bytes.length)) return new TextDecoder('utf-8', { ignoreBOM: at > 0 }).decode(bytes);
  // Binary search for the first invalid byte.
  let [good, bad] = [0, bytes.length];
  while (bad - good > 1) {
    const middle = (good + bad) >> 1;
    if (isUtf8(bytes, middle)) good = middle;
    else bad = middle;
  }
  throw new DataError(
    `${name} is not UTF-8 text: byte ${at + good} (${bytes[good]}) does not belong to a character. Save the file as UTF-8, or choose ` +
      'another one.',
  );
}

/**
 * Returns whether the first `length` bytes are valid UTF-8. If more bytes follow them, they may end
 * with an incomplete character.
 */
function isUtf8(bytes: Uint8Array, length: number): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes.subarray(0, length), { stream: length < bytes.length });
    return true;
  } catch {
    return false;
  }
}
