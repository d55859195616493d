/**
 * Reader for zip files: reads the directory, then single entries as slices of the file. zip.js
 * parses the format. This module adds error messages and limits the use of memory.
 */
import {
  ERR_BAD_FORMAT,
  ERR_CENTRAL_DIRECTORY_NOT_FOUND,
  ERR_ENTRY_DATA_OUT_OF_BOUNDS,
  ERR_EOCDR_LOCATOR_ZIP64_NOT_FOUND,
  ERR_EOCDR_NOT_FOUND,
  ERR_LOCAL_FILE_HEADER_NOT_FOUND,
  ERR_SPLIT_ZIP_FILE,
  ZipReader,
  type FileEntry,
  type Reader,
} from '@zip.js/zip.js/lib/zip-core-reader.js';
import { DataError, errorMessageOf } from '../util/errors.ts';
import { hexOf } from '../util/hex.ts';
import { PartialFile, type ByteSource } from './partialFile.ts';
import { checkZipEntry, zipEntryError, ZIP_METHOD_STORED, unpackZipEntry, type ZipEntryFacts } from './zipEntry.ts';

/**
 * Maximum size of the directory, because zip.js reads it into memory. It is enough for two million
 * names.
 */
const MAX_DIRECTORY_BYTES = 256 * 1024 * 1024;
/** Maximum size of an unpacked entry. A larger entry is probably a zip bomb. */
const MAX_UNPACKED_BYTES = 2 ** 32;

/** Archives that are not zip files: the first bytes in hexadecimal, and the name of the format. */
const OTHERS: readonly (readonly [start: string, what: string])[] = [
  ['52 61 72 21', 'a RAR archive'],
  ['37 7a bc af', 'a 7z archive'],
  ['1f 8b', 'a gzip file'],
];

interface ZipEntry {
  /** Path in the zip file, such as `cats/1.png`. */
  readonly path: string;
  /** The guessed encoding of the entry's name; `null` if the encoding is known. */
  readonly guessed: string | null;
  /** Unpacked size, bytes. */
  readonly size: number;
  readonly facts: ZipEntryFacts;
  /**
   * Reads the entry's bytes. If the entry is not compressed, the result is a slice of the file, and
   * nothing is read. If the entry is deflated, it is unpacked and its checksum is verified.
   *
   * @throws (rejects) DataError if the entry is damaged, encrypted or has an unsupported
   *   compression.
   */
  readonly blob: () => Promise<Blob>;
}

/**
 * Reads the directory of a zip file. Entries that are folders are left out.
 *
 * @throws (rejects) DataError if the directory is missing or damaged.
 */
export async function openZip(name: string, bytes: ByteSource): Promise<ZipEntry[]> {
  const file = new PartialFile(name, bytes);
  const zip = new ZipReader(sourceOf(file, bytes), { useWebWorkers: false, filenameValidation: 'tolerant' });
  const found: FileEntry[] = [];
  let count = 0;
  try {
    for await (const entry of zip.getEntriesGenerator()) {
      count++;
      if (!entry.directory && !pathOf(entry.filename).endsWith('/')) found.push(entry);
    }
  } catch (error) {
    throw error instanceof DataError ? error : await directoryError(file, error, zip.directoryOffset, count);
  }
  const encoding = encodingOf(found.filter(isGuessed).map(({ rawFilename }) => rawFilename));
  return found.map((entry) => {
    const guessed = isGuessed(entry) ? encoding : null;
    const { filename, rawFilename, uncompressedSize: size } = entry;
    const path = pathOf(guessed === 'windows-1252' ? new TextDecoder(guessed).decode(rawFilename) : filename);
    const facts = factsOf(name, entry);
    return { path, size, guessed, facts, blob: () => readEntry(bytes, entry, facts) };
  });
}

/**
 * Encodings of names that are not UTF-8. A zip file does not state which of them it uses. zip.js
 * decodes such names as code page 437.
 */
type NameEncoding = 'code page 437' | 'windows-1252';

/** For each encoding: returns whether a byte is a Latin letter. */
const LETTERS: Readonly<Record<NameEncoding, (byte: number) => boolean>> = {
  'code page 437': (byte) => byte < 0x9b || (byte >= 0xa0 && byte < 0xa6) || byte === 0xe1,
  'windows-1252': (byte) => byte < 0x80 || LETTERS_OF_1252.test(String.fromCharCode(byte)),
};
const LETTERS_OF_1252 = /[\x8a\x8c\x8e\x9a\x9c\x9e\x9f\xc0-\xd6\xd8-\xf6\xf8-\xff]/;

function isGuessed({ filenameUTF8, rawFilename, extraFieldUnicodePath }: FileEntry): boolean {
  return !filenameUTF8 && extraFieldUnicodePath?.valid !== true && rawFilename.some((byte) => byte > 0x7f);
}

/**
 * Guesses the encoding of the names in an archive: the one in which all non-ASCII bytes of the
 * names are Latin letters. If this is true of both or neither, it is code page 437.
 */
function encodingOf(names: readonly Uint8Array[]): NameEncoding {
  const isRead = (as: NameEncoding): boolean => names.every((bytes) => bytes.every(LETTERS[as]));
  return !isRead('code page 437') && isRead('windows-1252') ? 'windows-1252' : 'code page 437';
}

/** Returns an entry's path. Some programs write backslashes in it, or `./` or `../` before it. */
function pathOf(filename: string): string {
  const steps = filename.replaceAll('\\', '/').split('/');
  return steps.filter((step, i) => step !== '.' && step !== '..' && (step !== '' || i === steps.length - 1)).join('/');
}

function factsOf(zip: string, entry: FileEntry): ZipEntryFacts {
  const { filename, offset, uncompressedSize: size, compressedSize: packedSize, compressionMethod: method } = entry;
  return { zip, filename, offset, packedSize, size, method, isEncrypted: entry.encrypted, crc: entry.signature! };
}

function sourceOf(file: PartialFile, bytes: ByteSource): Reader<ByteSource> {
  return {
    size: file.size,
    get readable(): ReadableStream {
      return streamOf(bytes);
    },
    readUint8Array: (offset, length) => {
      if (length > MAX_DIRECTORY_BYTES)
        throw new DataError(
          `The list of files in ${file.name} has ${length} bytes, more than the maximum of ${MAX_DIRECTORY_BYTES}. Split it into several zip files.`,
        );
      return file.read(offset, offset + length);
    },
    createReadable: ({ offset = 0, size = file.size } = {}) => streamOf(bytes.slice(offset, offset + size)),
  };
}

function streamOf(bytes: ByteSource): ReadableStream {
  return bytes instanceof Blob
    ? bytes.stream()
    : new ReadableStream({
        async start(controller) {
          controller.enqueue(new Uint8Array(await bytes.arrayBuffer()));
          controller.close();
        },
      });
}

async function directoryError(
  file: PartialFile,
  cause: unknown,
  at: number | undefined,
  count: number,
): Promise<DataError> {
  const { name, size } = file;
  const start = hexOf(await file.read(0, 4), ' ');
  const fail = (what: string): DataError => new DataError(`${name} ${what}`, {}, { cause });
  const other = OTHERS.find(([bytes]) => start.startsWith(bytes))?.[1];
  if (other !== undefined) return fail(`is not a zip file, but ${other}. Unpack it, and pack its files as zip.`);
  switch (errorMessageOf(cause)) {
    case ERR_EOCDR_NOT_FOUND:
    case ERR_BAD_FORMAT:
      return fail(
        start === '50 4b 03 04'
          ? `ends too early, at byte ${size}. The directory at the end of the zip file is missing. Download it again.`
          : `is not a zip file: it starts with ${start === '' ? 'nothing' : start} at byte 0, but zip files start with ` +
              '50 4b 03 04. Choose another file.',
      );
    case ERR_CENTRAL_DIRECTORY_NOT_FOUND:
      return fail(
        `is damaged at byte ${at}: entry ${count + 1} of its directory is missing. Download it or create it again.`,
      );
    case ERR_EOCDR_LOCATOR_ZIP64_NOT_FOUND:
      return fail('is damaged: its zip64 directory is missing. Download it again.');
    case ERR_SPLIT_ZIP_FILE:
      return fail('is one part of a split zip file. Pack the files into a single zip file.');
    default:
      return fail(`is damaged (${errorMessageOf(cause)}). Download it or create it again.`);
  }
}

async function readEntry(bytes: ByteSource, entry: FileEntry, facts: ZipEntryFacts): Promise<Blob> {
  const { offset, size, method } = facts;
  if (!(bytes instanceof Blob)) {
    const read = async (count: number): Promise<Uint8Array<ArrayBuffer>> =>
      new Uint8Array(await bytes.slice(offset, Math.min(offset + count, bytes.size)).arrayBuffer());
    return new Blob([await unpackZipEntry(facts, read)]);
  }
  checkZipEntry(facts);
  const start = (): number => entry.localDirectory?.dataOffset ?? offset;
  if (size > MAX_UNPACKED_BYTES && method !== ZIP_METHOD_STORED) {
    throw zipEntryError(
      facts,
      offset,
      `would have ${size} bytes when unpacked, more than the maximum of ${MAX_UNPACKED_BYTES}. Pack it without compression.`,
    );
  }
  const { readable, writable } = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>();
  try {
    if (method === ZIP_METHOD_STORED) {
      await entry.getData(writable, { checkOverlappingEntryOnly: true });
      return bytes.slice(start(), start() + size);
    }
    const unpacked = new Response(readable).blob();
    await Promise.all([entry.getData(writable, { checkCrc32: true }), unpacked]);
    return await unpacked;
  } catch (cause) {
    switch (errorMessageOf(cause)) {
      case ERR_LOCAL_FILE_HEADER_NOT_FOUND:
        throw zipEntryError(facts, offset, 'is missing. The file is damaged. Download it or create it again.', cause);
      case ERR_ENTRY_DATA_OUT_OF_BOUNDS:
        throw zipEntryError(facts, start(), `ends too early, at byte ${bytes.size}. Download it again.`, cause);
      default:
        throw zipEntryError(
          facts,
          start(),
          `cannot be unpacked. It is damaged. Download or create ${facts.zip} again.`,
          cause,
        );
    }
  }
}
