/**
 * Files that are read when they are needed: files of the user's device, entries of a zip file,
 * files on a web server, and files that other ranks send. Their places can be sent to another
 * thread, which then reads them; those of files that other ranks send only after {@link
 * placeOnceArrived}.
 */
import {
  unpackZipEntry,
  likelyZipEntryBytes,
  zipHeaderBytes,
  MAX_ZIP_HEADER_BYTES,
  type ZipEntryFacts,
} from '../formats/zipEntry.ts';
import type { ByteSource } from '../formats/partialFile.ts';
import { DataError, errorMessageOf } from '../util/errors.ts';
import { readWebRanges, type ByteRange, type WebFileRange } from './webRanges.ts';

/** A file in a folder, or in a zip file. */
export interface DataFile {
  /** Path, such as `train/cats/1.png`. */
  path: string;
  /** Size in bytes. */
  size: number;
  /** In a zip file: the guessed encoding of the file's name; missing or `null` if it is known. */
  guessed?: string | null;
  /** A number that changes with the file's contents, such as its time; missing if it is unknown. */
  version?: number | undefined;
  place: FilePlace;
  /** Reads the whole file. */
  blob: () => Promise<Blob>;
}

/** Where the bytes of a file are. */
export type FilePlace =
  /** A file of the user's device. */
  | { readonly in: 'blob'; readonly blob: Blob }
  /** A range of bytes of a file on a web server. */
  | { readonly in: 'web'; readonly url: string; readonly range: ByteRange }
  /** A file that other ranks send while it is read. */
  | { readonly in: 'shared'; readonly file: IncomingFile }
  /** The bytes of a file of `size` bytes from byte `start` on, as far as they are in `blob`. */
  | { readonly in: 'part'; readonly blob: Blob; readonly start: number; readonly size: number }
  | { readonly in: 'zip'; readonly zip: Exclude<FilePlace, { in: 'zip' }>; readonly entry: ZipEntryFacts };

/** A file whose bytes arrive from other ranks. */
export interface IncomingFile {
  readonly size: number;
  /** Returns whether bytes start..end-1 are here. */
  has(start: number, end: number): boolean;
  /**
   * Resolves with bytes start..end-1 as soon as they are here.
   *
   * @throws (rejects) the error that has ended the distribution, if they are not here by then.
   */
  range(start: number, end: number): Promise<Blob>;
}

export function dataFileOf(file: File): DataFile {
  return {
    path: file.name,
    size: file.size,
    // Files that were received from another rank have no time.
    version: file.lastModified > 0 ? file.lastModified : undefined,
    place: { in: 'blob', blob: file },
    blob: () => Promise.resolve(file),
  };
}

/** Returns the bytes at a place, which are read when they are needed. */
export function byteSourceAt(place: Exclude<FilePlace, { in: 'zip' }>): ByteSource {
  if (place.in === 'blob') return place.blob;
  if (place.in === 'part') {
    const { blob, start, size } = place;
    return bytesOf(size, (range) => blob.slice(range.start - start, range.end - start).arrayBuffer());
  }
  if (place.in === 'shared') {
    const { file } = place;
    return bytesOf(file.size, async ({ start, end }) => (await file.range(start, end)).arrayBuffer());
  }
  const { url, range } = place;
  return bytesOf(range.end - range.start, async ({ start, end }) => {
    const [bytes] = await readWebRanges(url, [{ start: range.start + start, end: range.start + end }]);
    return bytes!.slice().buffer;
  });
}

function bytesOf(
  size: number,
  read: (range: ByteRange) => Promise<ArrayBuffer>,
  range: ByteRange = { start: 0, end: size },
): ByteSource {
  const at = (offset: number): number => Math.min(range.start + offset, range.end);
  return {
    size: range.end - range.start,
    slice: (start, end) => bytesOf(size, read, { start: at(start), end: at(end) }),
    arrayBuffer: () => read(range),
  };
}

/**
 * Returns the bytes of an {@link IncomingFile} that usually contain the file at a place; `null` if
 * the place is not in such a file.
 */
export function sharedFileRangeOf(place: FilePlace): { file: IncomingFile; range: ByteRange } | null {
  if (place.in === 'shared') return { file: place.file, range: { start: 0, end: place.file.size } };
  if (place.in !== 'zip' || place.zip.in !== 'shared') return null;
  const { file } = place.zip;
  const { offset } = place.entry;
  return {
    file,
    range: { start: offset, end: Math.min(file.size, offset + likelyZipEntryBytes(place.entry, Infinity)) },
  };
}

/**
 * Waits for the bytes at a place, and returns a place that any thread can read.
 *
 * @throws (rejects) as {@link IncomingFile.range}.
 */
export async function placeOnceArrived(place: FilePlace): Promise<FilePlace> {
  const found = sharedFileRangeOf(place);
  if (found === null) return place;
  const { file, range } = found;
  const { start } = range;
  if (place.in !== 'zip') return { in: 'blob', blob: await file.range(start, range.end) };
  const { entry } = place;
  const partOf = (blob: Blob): FilePlace => ({ in: 'zip', zip: { in: 'part', blob, start, size: file.size }, entry });
  const endAfter = (header: number): number => Math.min(file.size, start + header + entry.packedSize);
  const longest = endAfter(MAX_ZIP_HEADER_BYTES);
  if (file.has(start, longest)) return partOf(await file.range(start, longest));
  const usual = await file.range(start, range.end);
  const end = endAfter(await zipHeaderBytes(usual));
  return partOf(end <= range.end ? usual : await file.range(start, end));
}

/**
 * Reads files. Those on a web server are requested together. An item of the result is the error if
 * that file cannot be read.
 *
 * @param files the files, with their paths for errors.
 * @param most the number of bytes of each file that are needed, from its start. By default all.
 */
export async function readFilesAtPlaces(
  files: readonly { path: string; place: FilePlace }[],
  most = Infinity,
): Promise<(Uint8Array<ArrayBuffer> | DataError)[]> {
  const ranges = new Map<string, WebFileRange[]>();
  const rangeOf = new Map<FilePlace, { url: string; at: number }>();
  for (const { path, place } of files) {
    const found = webRangeOf(place, most);
    if (found === null) continue;
    const own = ranges.get(found.url) ?? [];
    ranges.set(found.url, own);
    rangeOf.set(place, { url: found.url, at: own.push({ ...found.range, path }) - 1 });
  }
  const received = new Map(
    await Promise.all([...ranges].map(async ([url, own]) => [url, await readWebRanges(url, own)] as const)),
  );
  return Promise.all(
    files.map(async ({ path, place }) => {
      const web = rangeOf.get(place);
      try {
        return await contentOf(place, web && received.get(web.url)![web.at]!, most);
      } catch (cause) {
        if (cause instanceof DataError) return cause;
        return new DataError(`${path} could not be read (${errorMessageOf(cause)}). Choose it again.`, {}, { cause });
      }
    }),
  );
}

/**
 * Returns the range of a web server's file that contains the needed bytes; `null` if the file is
 * not there.
 */
function webRangeOf(place: FilePlace, most: number): { url: string; range: ByteRange } | null {
  if (place.in === 'web') {
    const { start, end } = place.range;
    return { url: place.url, range: { start, end: Math.min(end, start + most) } };
  }
  if (place.in !== 'zip' || place.zip.in !== 'web') return null;
  const { url, range } = place.zip;
  const start = range.start + place.entry.offset;
  return { url, range: { start, end: Math.min(range.end, start + likelyZipEntryBytes(place.entry, most)) } };
}

/** @param received the bytes that a web server has sent for this file. */
async function contentOf(
  place: FilePlace,
  received: Uint8Array<ArrayBuffer> | undefined,
  most: number,
): Promise<Uint8Array<ArrayBuffer>> {
  if (place.in === 'web') return received!;
  if (place.in !== 'zip') {
    const whole = byteSourceAt(place);
    return new Uint8Array(await whole.slice(0, Math.min(most, whole.size)).arrayBuffer());
  }
  const { zip, entry } = place;
  const bytes = byteSourceAt(zip);
  return unpackZipEntry(
    entry,
    async (count) => {
      const end = Math.min(entry.offset + count, bytes.size);
      if (received !== undefined && received.length >= end - entry.offset) return received;
      return new Uint8Array(await bytes.slice(entry.offset, end).arrayBuffer());
    },
    most,
  );
}
