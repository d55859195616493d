/**
 * Files that are read when they are needed: files of the user's device, entries of a zip file, and
 * files on a web server. Their places can be sent to another thread, which then reads them.
 */
import { unpackEntry, entryBytes, type ZipEntryFacts } from '../formats/zipEntry.ts';
import type { Bytes } from '../formats/partialFile.ts';
import { DataError, messageOf } from '../util/errors.ts';
import { readRanges, type ByteRange, type FileRange } from './webRanges.ts';

/** A file in a folder, or in a zip file. */
export interface StoredFile {
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
  | { readonly in: 'zip'; readonly zip: Exclude<FilePlace, { in: 'zip' }>; readonly entry: ZipEntryFacts };

export function storedFile(file: File): StoredFile {
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
export function bytesAt(place: Exclude<FilePlace, { in: 'zip' }>): Bytes {
  if (place.in === 'blob') return place.blob;
  const { url, range } = place;
  const size = range.end - range.start;
  return {
    size,
    slice: (start, end) =>
      bytesAt({ in: 'web', url, range: { start: range.start + start, end: range.start + Math.min(end, size) } }),
    arrayBuffer: async () => (await readRanges(url, [range]))[0]!.slice().buffer,
  };
}

/**
 * Reads files. Those on a web server are requested together. An item of the result is the error if
 * that file cannot be read.
 *
 * @param files the files, with their paths for errors.
 * @param most the number of bytes of each file that are needed, from its start. By default all.
 */
export async function readFiles(
  files: readonly { path: string; place: FilePlace }[],
  most = Infinity,
): Promise<(Uint8Array<ArrayBuffer> | DataError)[]> {
  const ranges = new Map<string, FileRange[]>();
  const rangeOf = new Map<FilePlace, { url: string; at: number }>();
  for (const { path, place } of files) {
    const found = webRangeOf(place, most);
    if (found === null) continue;
    const own = ranges.get(found.url) ?? [];
    ranges.set(found.url, own);
    rangeOf.set(place, { url: found.url, at: own.push({ ...found.range, path }) - 1 });
  }
  const received = new Map(
    await Promise.all([...ranges].map(async ([url, own]) => [url, await readRanges(url, own)] as const)),
  );
  return Promise.all(
    files.map(async ({ path, place }) => {
      const web = rangeOf.get(place);
      try {
        return await contentOf(place, web && received.get(web.url)![web.at]!, most);
      } catch (cause) {
        if (cause instanceof DataError) return cause;
        return new DataError(`${path} could not be read (${messageOf(cause)}). Choose it again.`, {}, { cause });
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
  if (place.in === 'blob' || place.zip.in === 'blob') return null;
  const { url, range } = place.zip;
  const start = range.start + place.entry.offset;
  return { url, range: { start, end: Math.min(range.end, start + entryBytes(place.entry, most)) } };
}

/** @param received the bytes that a web server has sent for this file. */
async function contentOf(
  place: FilePlace,
  received: Uint8Array<ArrayBuffer> | undefined,
  most: number,
): Promise<Uint8Array<ArrayBuffer>> {
  if (place.in === 'web') return received!;
  if (place.in === 'blob') return new Uint8Array(await place.blob.slice(0, most).arrayBuffer());
  const { zip, entry } = place;
  const bytes = bytesAt(zip);
  return unpackEntry(
    entry,
    async (count) => {
      const end = Math.min(entry.offset + count, bytes.size);
      if (received !== undefined && received.length >= end - entry.offset) return received;
      return new Uint8Array(await bytes.slice(entry.offset, end).arrayBuffer());
    },
    most,
  );
}
