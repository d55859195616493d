/**
 * Unpacks one entry of a zip file from its bytes, in any thread.
 *
 * Source: PKWARE's APPNOTE.TXT, sections 4.3.7 and 4.4.
 */
import { Inflate, inflateSync } from 'fflate';
import { crc32 } from '../util/crc32.ts';
import { DataError } from '../util/errors.ts';

export const ZIP_METHOD_STORED = 0;
const DEFLATED = 8;

/** What the directory of a zip file says about an entry. It can be sent to another thread. */
export interface ZipEntryFacts {
  /** Name of the zip file. */
  readonly zip: string;
  readonly filename: string;
  /** Position of the entry's header in the zip file. */
  readonly offset: number;
  /** Bytes in the zip file, and unpacked. */
  readonly packedSize: number;
  readonly size: number;
  readonly method: number;
  readonly isEncrypted: boolean;
  /** CRC-32 of the unpacked bytes. */
  readonly crc: number;
}

/** Length of the header before an entry's bytes, without the name and the extra field in it. */
const HEADER_BYTES = 30;
/** Largest length of a header with its name and its extra field, each of at most 65 535 bytes. */
export const MAX_ZIP_HEADER_BYTES = HEADER_BYTES + 2 * 0xffff;
const HEADER_MARK = 0x04034b50;
/** Limit of the length of the tables of codes with which an entry's packed bytes may begin. */
const CODES_BYTES = 1024;
/** Length that the extra field before an entry's bytes usually does not exceed. */
const EXTRA_BYTES = 512;

export function zipEntryError({ zip, filename }: ZipEntryFacts, at: number, what: string, cause?: unknown): DataError {
  return new DataError(`${zip}: ${filename} at byte ${at} ${what}`, {}, { cause });
}

/** @throws DataError if an entry of this kind cannot be unpacked. */
export function checkZipEntry(entry: ZipEntryFacts): void {
  const { offset, packedSize, size, method, isEncrypted } = entry;
  if (isEncrypted) throw zipEntryError(entry, offset, 'is encrypted. Pack the files without a password.');
  if (method !== ZIP_METHOD_STORED && method !== DEFLATED) {
    throw zipEntryError(
      entry,
      offset,
      `uses compression method ${method}, but only uncompressed and deflated entries can be read. Pack the files with another program or setting.`,
    );
  }
  if (method === ZIP_METHOD_STORED && packedSize !== size) {
    throw zipEntryError(
      entry,
      offset,
      `has ${packedSize} bytes, but the directory says ${size}. The file is damaged. Download it or create it again.`,
    );
  }
}

/**
 * Returns the number of bytes from the entry's offset on that usually contain the entry, or its
 * first `most` bytes.
 */
export function likelyZipEntryBytes(entry: ZipEntryFacts, most: number): number {
  return HEADER_BYTES + new TextEncoder().encode(entry.filename).length + EXTRA_BYTES + packedBytes(entry, most);
}

/**
 * Returns the length of the header before an entry's bytes. Returns 0 if `blob` cannot be read, or
 * does not begin with a header.
 */
export async function zipHeaderBytes(blob: Blob): Promise<number> {
  const bytes = await blob
    .slice(0, HEADER_BYTES)
    .arrayBuffer()
    .catch(() => new ArrayBuffer(0));
  return headerLength(new DataView(bytes)) ?? 0;
}

/** Returns the length of an entry's header; `null` if there is no header. */
function headerLength(header: DataView): number | null {
  if (header.byteLength < HEADER_BYTES || header.getUint32(0, true) !== HEADER_MARK) return null;
  return HEADER_BYTES + header.getUint16(26, true) + header.getUint16(28, true);
}

/** Returns how many packed bytes are needed to unpack the first `most` bytes. */
function packedBytes({ packedSize, size }: ZipEntryFacts, most: number): number {
  return most < size ? Math.min(packedSize, most + CODES_BYTES) : packedSize;
}

/**
 * Unpacks an entry, and verifies its checksum; or unpacks only its start.
 *
 * @param read returns the given number of bytes from the entry's offset on, or fewer at the end of
 *   the zip file.
 * @param most the number of unpacked bytes that are needed.
 * @throws (rejects) DataError if the entry is damaged, encrypted or has an unsupported compression.
 */
export async function unpackZipEntry(
  entry: ZipEntryFacts,
  read: (bytes: number) => Promise<Uint8Array<ArrayBuffer>>,
  most = Infinity,
): Promise<Uint8Array<ArrayBuffer>> {
  checkZipEntry(entry);
  const { zip, offset, size, method, crc } = entry;
  const needed = packedBytes(entry, most);
  let bytes = await read(likelyZipEntryBytes(entry, most));
  const start = headerLength(new DataView(bytes.buffer, bytes.byteOffset, bytes.length));
  if (start === null) {
    throw zipEntryError(entry, offset, 'is missing. The file is damaged. Download it or create it again.');
  }
  if (bytes.length < start + needed) bytes = await read(start + needed);
  const packed = bytes.subarray(start, start + needed);
  if (packed.length < needed) {
    throw zipEntryError(entry, offset + start, `ends too early, at byte ${offset + bytes.length}. Download it again.`);
  }
  const damaged = (cause?: unknown): DataError =>
    zipEntryError(entry, offset + start, `cannot be unpacked. It is damaged. Download or create ${zip} again.`, cause);
  let unpacked = packed;
  if (method === DEFLATED) {
    try {
      unpacked = most < size ? inflateStart(packed) : inflateSync(packed, { out: new Uint8Array(size) });
    } catch (cause) {
      throw damaged(cause);
    }
  }
  if (most < size) {
    // The first blocks of an entry may be short, so that its start needs more packed bytes.
    const enough = unpacked.length < most ? await unpackZipEntry(entry, read) : unpacked;
    return enough.slice(0, most);
  }
  if (unpacked.length !== size || crc32(unpacked) !== crc) throw damaged();
  return unpacked;
}

/** Unpacks the bytes whose codes are complete. */
function inflateStart(packed: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  // A block that is not compressed begins with its length. fflate only returns it as a whole.
  if ((packed[0]! & 0b110) === 0) return packed.subarray(5, 5 + packed[1]! + 256 * packed[2]!);
  let start = new Uint8Array();
  new Inflate((bytes) => {
    start = bytes.slice();
  }).push(packed);
  return start;
}
