/**
 * A text that is read piece by piece, as often as need be: as a string it would be in memory
 * several times over, and may be longer than strings can be.
 */
import { DataError, messageOf } from '../../util/errors.ts';

export interface Text {
  /**
   * From its beginning, each time; no character lies in two pieces. @throws (rejects) DataError
   * where a file cannot be read, or is no UTF-8.
   */
  pieces(): AsyncIterable<string>;
}

/** Bytes that are read at once. */
const PIECE_BYTES = 1024 * 1024;
/** A character has at most so many bytes. */
const MAX_CHARACTER_BYTES = 4;

/** Of `files`, in the order of their names, a line's end between them. */
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

/** One that is in memory. */
export function plainText(text: string): Text {
  return {
    async *pieces() {
      yield await Promise.resolve(text);
    },
  };
}

/** What lies from code unit `from` on, up to `to`. */
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
    throw new DataError(`${file.name} could not be read (${messageOf(cause)}): choose it again.`, {}, { cause });
  }
}

/** How many bytes at the end are the beginning of a character. */
function begunBytes(bytes: Uint8Array): number {
  for (let back = 1; back < MAX_CHARACTER_BYTES && back < bytes.length; back++) {
    const byte = bytes[bytes.length - back]!;
    // One within a character: it began before.
    if (byte >> 6 === 0b10) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

/**
 * @param at where in the file `bytes` begin. @throws DataError naming the first byte that is wrong.
 */
function decode(name: string, bytes: Uint8Array, at: number): string {
  if (isUtf8(bytes, bytes.length)) return new TextDecoder('utf-8', { ignoreBOM: at > 0 }).decode(bytes);
  // By halving.
  let [good, bad] = [0, bytes.length];
  while (bad - good > 1) {
    const middle = (good + bad) >> 1;
    if (isUtf8(bytes, middle)) good = middle;
    else bad = middle;
  }
  throw new DataError(
    `${name} is not a text in UTF-8: byte ${at + good} (${bytes[good]}) is part of no character. Save it as UTF-8, or choose ` +
      'another file.',
  );
}

/** Whether the first `length` bytes may begin a text. */
function isUtf8(bytes: Uint8Array, length: number): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes.subarray(0, length), { stream: length < bytes.length });
    return true;
  } catch {
    return false;
  }
}
