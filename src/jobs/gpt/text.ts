/**
 * A text that is read in pieces. A single string could exceed the maximum string length, and
 * several copies of it would be in memory.
 */
import { isDataInHiddenFolder } from '../../spec/dataFiles.ts';
import type { DataNote, DataNoteKind } from '../../spec/preview.ts';
import {
  describeTextEncodingError,
  binaryDocumentFormat,
  adviseOnTextEncoding,
  detectedOrStatedEncoding,
  ENCODING_EXAMINED_BYTES,
  isMarkup,
} from '../../formats/textEncoding.ts';
import { readByteRange } from '../../formats/partialFile.ts';
import { incompleteCharacterBytes, decodeUtf8 } from '../../formats/utf8.ts';
import type { TextEncodingName } from '../../spec/names.ts';
import { fileNotesByFolder } from '../fileNotes.ts';
import { DataError } from '../../util/errors.ts';

export interface TrainingText {
  /** Size in bytes. The text has at most this many characters. */
  readonly bytes: number;
  /**
   * Yields the code points of the text from its start, in pieces. A piece is valid until the next
   * one is requested.
   *
   * @param onbytes receives the number of bytes that have been read from files.
   * @throws (rejects) DataError if a file cannot be read or is not text.
   */
  pieces(onbytes?: (bytes: number) => void): AsyncIterable<Uint32Array>;
  /**
   * Notes about parts of the text that are left out or guessed. They are complete after the text
   * has been read once.
   */
  readonly notes: readonly DataNote[];
}

/** Bytes per read. A browser takes milliseconds for a read of any size. */
const PIECE_BYTES = 4 * 1024 * 1024;
/** Bytes of UTF-8 that are decoded together. Their code points fit in the processor's cache. */
const BLOCK_BYTES = 64 * 1024;

/** The largest code point that fits in one code unit. */
export const MAX_UTF16_UNIT_CODE = 0xffff;
const BYTE_ORDER_MARK = 0xfeff;

/** Returns the text of `files`, which are sorted by name and joined by line breaks. */
export function textOfFiles(
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
): TrainingText {
  const sorted = files.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const wide = new Set<string>();
  const marked = new Set<string>();
  return {
    bytes: sorted.reduce((sum, { size }) => sum + size, Math.max(0, sorted.length - 1)),
    get notes() {
      const markup = notesOf('markup', [...marked]);
      return [
        ...fileNotesByFolder(
          'files-ignored',
          ignored.filter((name) => !isDataInHiddenFolder(name)),
        ),
        ...fileNotesByFolder('folder-hidden', ignored.filter(isDataInHiddenFolder)),
        ...notesOf('utf-16', [...wide]),
        ...markup,
      ];
    },
    async *pieces(onbytes) {
      let before = 0;
      for (const [i, file] of sorted.entries()) {
        if (i > 0) yield codePointsOf('\n');
        const base = before + i;
        before += file.size;
        const start = await readByteRange(file.name, file, 0, ENCODING_EXAMINED_BYTES);
        const format = binaryDocumentFormat(start);
        if (format !== null) {
          throw new DataError(
            `${file.name} is ${format}, not plain text. Export its text as .txt in UTF-8, and choose that.`,
          );
        }
        if (isMarkup(start)) marked.add(file.name);
        const encoding = detectedOrStatedEncoding(start, stated);
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
export function textInMemory(text: string): TrainingText {
  return {
    bytes: text.length,
    notes: [],
    async *pieces() {
      yield await Promise.resolve(codePointsOf(text));
    },
  };
}

function notesOf(kind: DataNoteKind, names: readonly string[]): DataNote[] {
  const [example] = names;
  return example === undefined ? [] : [{ kind, count: names.length, name: '', example }];
}

/** Replaces half of a surrogate pair without the other half, as TextEncoder does. */
const REPLACEMENT = 0xfffd;

export function codePointsOf(text: string): Uint32Array {
  const codes = new Uint32Array(text.length);
  let length = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.codePointAt(at)!;
    if (code > MAX_UTF16_UNIT_CODE) at += 1;
    codes[length++] = isSurrogate(code) ? REPLACEMENT : code;
  }
  return codes.subarray(0, length);
}

function isSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdfff;
}

export function stringOfCodePoints(codePoints: Uint32Array): string {
  return Array.from(codePoints, (code) => String.fromCodePoint(code)).join('');
}

/** A part of a file, and the number of bytes before its end. */
interface Part {
  piece: Uint32Array;
  end: number;
}

async function* utf8Pieces(file: File, pieceBytes: number): AsyncGenerator<Part> {
  const codes = new Uint32Array(Math.min(BLOCK_BYTES, file.size));
  let next = readByteRange(file.name, file, 0, pieceBytes);
  for (let at = 0; at < file.size;) {
    const read = await next;
    const bytes =
      at + read.length === file.size ? read : read.subarray(0, read.length - incompleteCharacterBytes(read));
    if (bytes.length === 0) {
      throw new DataError(
        `${file.name} ends at byte ${at}, but had ${file.size} bytes when it was chosen. Choose it again.`,
      );
    }
    const zero = bytes.indexOf(0);
    if (zero !== -1) {
      throw new DataError(
        `${file.name} is not text: byte ${at + zero} is 0. Choose a text file; export the text if it is in a document.`,
      );
    }
    // The next bytes are read while these are decoded.
    next = readByteRange(file.name, file, at + bytes.length, at + bytes.length + pieceBytes);
    // If the caller stops here, nobody waits for them.
    next.catch(() => {});
    for (let from = 0; from < bytes.length;) {
      const some = bytes.subarray(from, from + BLOCK_BYTES);
      const block =
        from + some.length === bytes.length ? some : some.subarray(0, some.length - incompleteCharacterBytes(some));
      const length = decodeUtf8(block, codes);
      if (length === -1) throw invalidUtf8(file.name, block, at + from);
      const mark = at + from === 0 && codes[0] === BYTE_ORDER_MARK ? 1 : 0;
      from += block.length;
      yield { piece: codes.subarray(mark, length), end: at + from };
    }
    at += bytes.length;
  }
}

/** Yields a text in another encoding than UTF-8. */
async function* decodedPieces(
  file: File,
  encoding: ReturnType<typeof detectedOrStatedEncoding>,
  pieceBytes: number,
): AsyncGenerator<Part> {
  const decoder = new TextDecoder(encoding, { fatal: true });
  const length = pieceBytes + (pieceBytes % 2);
  for (let at = 0; at < file.size; at += length) {
    const end = Math.min(at + length, file.size);
    try {
      const piece = decoder.decode(await readByteRange(file.name, file, at, at + length), { stream: end < file.size });
      if (piece.includes('\0')) throw new Error('a character is 0, as in UTF-32');
      if (piece !== '') yield { piece: codePointsOf(piece), end };
    } catch (cause) {
      if (cause instanceof DataError) throw cause;
      throw new DataError(`${file.name} ${describeTextEncodingError(encoding, ` near byte ${at}`)}.`, {}, { cause });
    }
  }
}

/**
 * Returns an error that names the first byte that is not UTF-8.
 *
 * @param at offset of `bytes` in the file.
 */
function invalidUtf8(name: string, bytes: Uint8Array, at: number): DataError {
  let [good, bad] = [0, bytes.length];
  while (bad - good > 1) {
    const middle = (good + bad) >> 1;
    if (isUtf8(bytes, middle)) good = middle;
    else bad = middle;
  }
  return new DataError(
    `${name} is not UTF-8 text: byte ${at + good} (${bytes[good]}) does not belong to a character. ${adviseOnTextEncoding(bytes)}.`,
  );
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
