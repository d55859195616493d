/** Detects the encoding of text files by their first bytes. */
import { DataError } from '../util/errors.ts';
import type { TextEncodingName } from '../spec/names.ts';
import { PartialFile } from './partialFile.ts';

export type TextEncoding = 'utf-8' | 'utf-16le' | 'utf-16be';

/** Maximum number of bytes that {@link detectTextEncoding} examines. */
export const ENCODING_EXAMINED_BYTES = 4096;
const UTF8_MARK = [0xef, 0xbb, 0xbf];
/** In most texts in UTF-16, at least this share of the high bytes is 0. */
const ZEROS = 0.3;

/**
 * Returns the encoding of a file that starts with `bytes`, or `null` if the file is not plain text.
 * UTF-16 is recognised by its mark or, without a mark, by the zeros in every other byte. UTF-8 is
 * checked later, when the file is read.
 */
export function detectTextEncoding(bytes: Uint8Array): TextEncoding | null {
  if (binaryDocumentFormat(bytes) !== null) return null;
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return 'utf-16le';
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return 'utf-16be';
  const zeros = [0, 1].map((odd) => bytes.filter((byte, at) => byte === 0 && at % 2 === odd).length);
  const [even, odd] = zeros as [number, number];
  if (even + odd === 0) return isText(bytes, 'utf-8') ? 'utf-8' : null;
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
export function binaryDocumentFormat(bytes: Uint8Array): string | null {
  const start = String.fromCharCode(...bytes.subarray(0, 8));
  return DOCUMENTS.find(([beginning]) => start.startsWith(beginning))?.[1] ?? null;
}

/** Returns whether a text is HTML or XML. */
export function isMarkup(bytes: Uint8Array): boolean {
  return /^\s*<(!doctype|html|\?xml|head|body)/i.test(new TextDecoder().decode(bytes.subarray(0, 64)));
}

/**
 * Returns the encoding of a text: UTF-16 or UTF-8 if its first bytes show it, otherwise `stated`.
 *
 * @param bytes the first bytes of the file.
 */
export function detectedOrStatedEncoding(bytes: Uint8Array, stated: TextEncodingName): TextEncoding | TextEncodingName {
  const found = detectTextEncoding(bytes);
  if (found !== null && found !== 'utf-8') return found;
  return UTF8_MARK.every((byte, i) => bytes[i] === byte) ? 'utf-8' : stated;
}

/**
 * Returns a copy of a file in UTF-8, or the file itself if it has this encoding.
 *
 * @param stated see {@link detectedOrStatedEncoding}.
 * @throws (rejects) DataError if the file cannot be read, or is damaged.
 */
export async function convertFileToUtf8(
  file: File,
  stated: TextEncodingName,
): Promise<{ file: File; isUtf16: boolean }> {
  const start = await new PartialFile(file.name, file).read(0, ENCODING_EXAMINED_BYTES);
  const encoding = detectedOrStatedEncoding(start, stated);
  if (encoding === 'utf-8') return { file, isUtf16: false };
  const text = file.stream().pipeThrough(new TextDecoderStream(encoding, { fatal: true }));
  try {
    const bytes = await new Response(text.pipeThrough(new TextEncoderStream())).blob();
    return { file: new File([bytes], file.name), isUtf16: encoding.startsWith('utf-16') };
  } catch (cause) {
    throw new DataError(`${file.name} ${describeTextEncodingError(encoding)}.`, {}, { cause });
  }
}

/**
 * Describes a file that is not text in its encoding, and what to do.
 *
 * @param place where the error is, with a space before it.
 */
export function describeTextEncodingError(encoding: TextEncoding | TextEncodingName, place = ''): string {
  return encoding.startsWith('utf-16')
    ? `is damaged UTF-16 text${place}. Save the file as UTF-8`
    : `is not text in ${encoding}${place}. Choose another encoding by the job field "encoding" or --encoding, or save the file as UTF-8`;
}

/** Encodings that programs write by default, and where. `windows-1252` can decode any bytes. */
const LIKELY: readonly (readonly [TextEncodingName, string])[] = [
  ['gb18030', 'Chinese'],
  ['shift_jis', 'Japanese'],
  ['big5', 'traditional Chinese'],
  ['euc-kr', 'Korean'],
  ['windows-1252', 'Western Europe'],
];

/** Returns advice about text that is not UTF-8. It names the encodings that the text may have. */
export function adviseOnTextEncoding(bytes: Uint8Array): string {
  const likely = LIKELY.filter(([name]) => isText(bytes, name)).map(([name, where]) => `${name} (${where})`);
  return `Save the file as UTF-8, or state its encoding by the job field "encoding" or --encoding. It may be ${likely.join(' or ')}`;
}

/** Returns whether bytes are the start of a text. */
function isText(bytes: Uint8Array, encoding: TextEncodingName): boolean {
  try {
    new TextDecoder(encoding, { fatal: true }).decode(bytes, { stream: true });
    return true;
  } catch {
    return false;
  }
}
