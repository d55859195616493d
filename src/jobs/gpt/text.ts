/**
 * A text that is read in pieces. A single string could exceed the maximum string length, and
 * several copies of it would be in memory.
 */
import { isDataInHiddenFolder } from '../../spec/dataFiles.ts';
import type { DataNote, NoteKind } from '../../spec/preview.ts';
import {
  damage,
  documentFormat,
  encodingAdvice,
  encodingOfText,
  EXAMINED_BYTES,
  isMarkup,
} from '../../formats/textEncoding.ts';
import type { TextEncodingName } from '../../spec/names.ts';
import { byFolder } from '../fileNotes.ts';
import { DataError, messageOf } from '../../util/errors.ts';

export interface Text {
  /** Size in bytes. The text has at most this many code units. */
  readonly bytes: number;
  /**
   * Yields the text from its start. No character is split between two pieces.
   *
   * @param onbytes receives the number of bytes that have been read from files.
   * @throws (rejects) DataError if a file cannot be read or is not text.
   */
  pieces(onbytes?: (bytes: number) => void): AsyncIterable<string>;
  /**
   * Notes about parts of the text that are left out or guessed. They are complete after the text
   * has been read once.
   */
  readonly notes: readonly DataNote[];
}

/** Bytes per read. */
const PIECE_BYTES = 1024 * 1024;
/** Maximum number of bytes of a character in UTF-8. */
const MAX_CHARACTER_BYTES = 4;

/** Returns the text of `files`, which are sorted by name and joined by line breaks. */
export function textOf(
  files: readonly File[],
  {
    signal,
    ignored = [],
    encoding: stated = 'utf-8',
    pieceBytes = PIECE_BYTES,
  }: {
    signal?: AbortSignal | undefined;
    ignored?: readonly string[];
    encoding?: TextEncodingName | undefined;
    pieceBytes?: number;
  } = {},
): Text {
  const sorted = files.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const wide = new Set<string>();
  const marked = new Set<string>();
  return {
    bytes: sorted.reduce((sum, { size }) => sum + size, Math.max(0, sorted.length - 1)),
    get notes() {
      const markup = notesOf('markup', [...marked]);
      return [
        ...byFolder(
          'files-ignored',
          ignored.filter((name) => !isDataInHiddenFolder(name)),
        ),
        ...byFolder('folder-hidden', ignored.filter(isDataInHiddenFolder)),
        ...notesOf('utf-16', [...wide]),
        ...markup,
      ];
    },
    async *pieces(onbytes) {
      let before = 0;
      for (const [i, file] of sorted.entries()) {
        if (i > 0) yield '\n';
        const base = before + i;
        before += file.size;
        const start = await bytesAt(file, 0, EXAMINED_BYTES);
        const format = documentFormat(start);
        if (format !== null) {
          throw new DataError(
            `${file.name} is ${format}, not plain text. Export its text as .txt in UTF-8, and choose that.`,
          );
        }
        if (isMarkup(start)) marked.add(file.name);
        const encoding = encodingOfText(start, stated);
        if (encoding.startsWith('utf-16')) wide.add(file.name);
        const parts = encoding === 'utf-8' ? utf8Pieces(file, pieceBytes) : decodedPieces(file, encoding, pieceBytes);
        for await (const { piece, end } of parts) {
          signal?.throwIfAborted();
          yield piece;
          onbytes?.(base + end);
        }
      }
    },
  };
}

/** Returns a text that is in memory. */
export function plainText(text: string): Text {
  return {
    bytes: text.length,
    notes: [],
    async *pieces() {
      yield await Promise.resolve(text);
    },
  };
}

function notesOf(kind: NoteKind, names: readonly string[]): DataNote[] {
  const [example] = names;
  return example === undefined ? [] : [{ kind, count: names.length, name: '', example }];
}

/** A part of a file, and the number of bytes before its end. */
interface Part {
  piece: string;
  end: number;
}

async function* utf8Pieces(file: File, pieceBytes: number): AsyncGenerator<Part> {
  for (let at = 0; at < file.size;) {
    const bytes = await bytesAt(file, at, pieceBytes);
    const whole = at + bytes.length === file.size ? bytes : bytes.subarray(0, bytes.length - begunBytes(bytes));
    const piece = decode(file.name, whole, at);
    at += whole.length;
    yield { piece, end: at };
  }
}

/** Yields a text in another encoding than UTF-8. */
async function* decodedPieces(
  file: File,
  encoding: ReturnType<typeof encodingOfText>,
  pieceBytes: number,
): AsyncGenerator<Part> {
  const decoder = new TextDecoder(encoding, { fatal: true });
  const length = pieceBytes + (pieceBytes % 2);
  for (let at = 0; at < file.size; at += length) {
    const end = Math.min(at + length, file.size);
    try {
      const piece = decoder.decode(await bytesAt(file, at, length), { stream: end < file.size });
      if (piece.includes('\0')) throw new Error('a character is 0, as in UTF-32');
      if (piece !== '') yield { piece, end };
    } catch (cause) {
      if (cause instanceof DataError) throw cause;
      throw new DataError(`${file.name} ${damage(encoding, ` near byte ${at}`)}.`, {}, { cause });
    }
  }
}

/** @throws (rejects) DataError if the file cannot be read. */
export async function bytesAt(file: File, at: number, length: number): Promise<Uint8Array> {
  try {
    return new Uint8Array(await file.slice(at, at + length).arrayBuffer());
  } catch (cause) {
    throw new DataError(`${file.name} could not be read (${messageOf(cause)}). Choose it again.`, {}, { cause });
  }
}

/** Returns the number of bytes of an incomplete character at the end. */
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
  const zero = bytes.indexOf(0);
  if (zero !== -1) {
    throw new DataError(
      `${name} is not text: byte ${at + zero} is 0. Choose a text file; export the text if it is in a document.`,
    );
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: at > 0 }).decode(bytes);
  } catch (cause) {
    // Binary search for the first invalid byte.
    let [good, bad] = [0, bytes.length];
    while (bad - good > 1) {
      const middle = (good + bad) >> 1;
      if (isUtf8(bytes, middle)) good = middle;
      else bad = middle;
    }
    throw new DataError(
      `${name} is not UTF-8 text: byte ${at + good} (${bytes[good]}) does not belong to a character. ${encodingAdvice(bytes)}.`,
      {},
      { cause },
    );
  }
}

/**
 * Returns whether the first `length` bytes are valid UTF-8. If `bytes` is longer than that, an
 * incomplete character at the end is allowed.
 */
function isUtf8(bytes: Uint8Array, length: number): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes.subarray(0, length), { stream: length < bytes.length });
    return true;
  } catch {
    return false;
  }
}
