/** Detects the encoding of text files by their first bytes. */
import { DataError } from '../util/errors.ts';
import { PartialFile } from './partialFile.ts';

export type TextEncoding = 'utf-8' | 'utf-16le' | 'utf-16be';

/** Maximum number of bytes that {@link encodingOf} examines. */
export const EXAMINED_BYTES = 4096;
/** In most texts in UTF-16, at least this share of the high bytes is 0. */
const ZEROS = 0.3;

/**
 * Returns the encoding of a file that starts with `bytes`, or `null` if the file is not plain text.
 * UTF-16 is recognised by its mark or, without a mark, by the zeros in every other byte. UTF-8 is
 * checked later, when the file is read.
 */
export function encodingOf(bytes: Uint8Array): TextEncoding | null {
  if (documentFormat(bytes) !== null) return null;
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return 'utf-16le';
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return 'utf-16be';
  const zeros = [0, 1].map((odd) => bytes.filter((byte, at) => byte === 0 && at % 2 === odd).length);
  const [even, odd] = zeros as [number, number];
  if (even + odd === 0) return isUtf8Start(bytes) ? 'utf-8' : null;
  const least = (ZEROS * bytes.length) / 2;
  // A file with zeros at both even and odd places is not taken for text: it may contain characters
  // with code 0, which texts do not have.
  if (odd >= least && even === 0) return 'utf-16le';
  return even >= least && odd === 0 ? 'utf-16be' : null;
}

/** Documents that are not plain text: the start of each, as characters, and its format. */
const DOCUMENTS: readonly (readonly [start: string, format: string])[] = [
  ['%PDF-', 'a PDF document'],
  ['{\\rtf', 'an RTF document'],
  ['PK\x03\x04', 'a Word, OpenDocument, EPUB or zip file'],
  ['\xd0\xcf\x11\xe0', 'an old Word document'],
  ['\x1f\x8b', 'a gzip file'],
  ['\x89PNG', 'a picture'],
  ['\xff\xd8\xff', 'a picture'],
  ['GIF8', 'a picture'],
];

/** Returns the format of a document that is not plain text; `null` for other files. */
export function documentFormat(bytes: Uint8Array): string | null {
  const start = String.fromCharCode(...bytes.subarray(0, 8));
  return DOCUMENTS.find(([beginning]) => start.startsWith(beginning))?.[1] ?? null;
}

/** Returns whether a text is HTML or XML. */
export function isMarkup(bytes: Uint8Array): boolean {
  return /^\s*<(!doctype|html|\?xml|head|body)/i.test(new TextDecoder().decode(bytes.subarray(0, 64)));
}

/**
 * Returns a copy of a UTF-16 file in UTF-8; `null` if the file has another encoding.
 *
 * @throws (rejects) DataError if the file cannot be read, or is damaged UTF-16.
 */
export async function utf16ToUtf8(file: File): Promise<File | null> {
  const encoding = encodingOf(await new PartialFile(file.name, file).read(0, EXAMINED_BYTES));
  if (encoding === null || encoding === 'utf-8') return null;
  const text = file.stream().pipeThrough(new TextDecoderStream(encoding, { fatal: true }));
  try {
    return new File([await new Response(text.pipeThrough(new TextEncoderStream())).blob()], file.name);
  } catch (cause) {
    throw new DataError(`${file.name} is damaged UTF-16 text. Save the file as UTF-8.`, {}, { cause });
  }
}

function isUtf8Start(bytes: Uint8Array): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true });
    return true;
  } catch {
    return false;
  }
}
