/**
 * Unpacks one entry of a zip file from its bytes, in any thread.
 *
 * Source: PKWARE's APPNOTE.TXT, sections 4.3.7 and 4.4.
 */
import { inflateSync } from 'fflate';
import { crc32 } from '../util/crc32.ts';
import { DataError } from '../util/errors.ts';

export const STORED = 0;
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

/** The header before an entry's bytes has this length, and then a name and an extra field. */
const HEADER_BYTES = 30;
const HEADER_MARK = 0x04034b50;
/** The extra field before an entry's bytes usually has at most this length. */
const EXTRA_BYTES = 512;

export function entryError({ zip, filename }: ZipEntryFacts, at: number, what: string, cause?: unknown): DataError {
  return new DataError(`${zip}: ${filename} at byte ${at} ${what}`, {}, { cause });
}

/** @throws DataError if an entry of this kind cannot be unpacked. */
export function checkEntry(entry: ZipEntryFacts): void {
  const { offset, packedSize, size, method, isEncrypted } = entry;
  if (isEncrypted) throw entryError(entry, offset, 'is encrypted. Pack the files without a password.');
  if (method !== STORED && method !== DEFLATED) {
    throw entryError(
      entry,
      offset,
      `uses compression method ${method}, but only uncompressed and deflated entries can be read. Pack the files with another program or setting.`,
    );
  }
  if (method === STORED && packedSize !== size) {
    throw entryError(
      entry,
      offset,
      `has ${packedSize} bytes, but the directory says ${size}. The file is damaged. Download it or create it again.`,
    );
  }
}

/** Returns the number of bytes from the entry's offset on that usually contain the whole entry. */
export function entryBytes({ filename, packedSize }: ZipEntryFacts): number {
  return HEADER_BYTES + new TextEncoder().encode(filename).length + EXTRA_BYTES + packedSize;
}

/**
 * Unpacks an entry, and verifies its checksum.
 *
 * @param read returns the given number of bytes from the entry's offset on, or fewer at the end of
 *   the zip file.
 * @throws (rejects) DataError if the entry is damaged, encrypted or uses another compression
 *   method.
 */
export async function unpackEntry(
  entry: ZipEntryFacts,
  read: (bytes: number) => Promise<Uint8Array<ArrayBuffer>>,
): Promise<Uint8Array<ArrayBuffer>> {
  checkEntry(entry);
  const { zip, offset, packedSize, size, method, crc } = entry;
  let bytes = await read(entryBytes(entry));
  const header = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (bytes.length < HEADER_BYTES || header.getUint32(0, true) !== HEADER_MARK) {
    throw entryError(entry, offset, 'is missing. The file is damaged. Download it or create it again.');
  }
  const start = HEADER_BYTES + header.getUint16(26, true) + header.getUint16(28, true);
  if (bytes.length < start + packedSize) bytes = await read(start + packedSize);
  const packed = bytes.subarray(start, start + packedSize);
  if (packed.length < packedSize) {
    throw entryError(entry, offset + start, `ends too early, at byte ${offset + bytes.length}. Download it again.`);
  }
  const damaged = (cause?: unknown): DataError =>
    entryError(entry, offset + start, `cannot be unpacked. It is damaged. Download or create ${zip} again.`, cause);
  let unpacked = packed;
  if (method === DEFLATED) {
    try {
      unpacked = inflateSync(packed, { out: new Uint8Array(size) });
    } catch (cause) {
      throw damaged(cause);
    }
  }
  if (unpacked.length !== size || crc32(unpacked) !== crc) throw damaged();
  return unpacked;
}
