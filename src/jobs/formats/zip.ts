/**
 * Reader for zip files: the directory at the file's end, then the entries that somebody asks for, by slices of the file. Entries are
 * stored or deflated, of any size (zip64); what is encrypted or on several disks is refused.
 *
 * Source: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
 */
import { DataError } from '../../util/errors.ts';
import { hexOf } from '../../util/hex.ts';
import { PartialFile } from './partialFile.ts';

const DIRECTORY_END = 0x06054b50;
const DIRECTORY_END_64 = 0x06064b50;
const LOCATOR_64 = 0x07064b50;
const DIRECTORY_ENTRY = 0x02014b50;
const LOCAL_HEADER = 0x04034b50;
const END_BYTES = 22;
const LOCATOR_BYTES = 20;
const END_64_BYTES = 56;
const ENTRY_BYTES = 46;
const LOCAL_BYTES = 30;
const MAX_COMMENT_BYTES = 0xffff;
const STORED = 0;
const DEFLATED = 8;
const IS_ENCRYPTED = 1;
const IS_UTF8 = 1 << 11;
/** The extra field with what does not fit 32 bits. */
const EXTRA_64 = 1;
/** A directory of two million names. */
const MAX_DIRECTORY_BYTES = 256 * 1024 * 1024;
/** Of one entry unpacked: more is not a sample but a bomb. */
const MAX_UNPACKED_BYTES = 2 ** 32;

export interface ZipEntry {
  /** With folders: `cats/1.png`. Without those that are folders themselves. */
  readonly path: string;
  /** Unpacked, bytes. */
  readonly size: number;
  /** Checksum of what is unpacked. */
  readonly crc32: number;
  readonly packedSize: number;
  readonly method: number;
  readonly isEncrypted: boolean;
  /** Where its own header is, bytes. */
  readonly offset: number;
}

export class ZipFile {
  readonly entries: readonly ZipEntry[];
  readonly #file: PartialFile;
  readonly #blob: Blob;

  private constructor(file: PartialFile, blob: Blob, entries: readonly ZipEntry[]) {
    this.#file = file;
    this.#blob = blob;
    this.entries = entries;
  }

  /**
   * Reads the directory.
   *
   * @throws (rejects) DataError, with the byte, if there is none, or it is damaged.
   */
  static async open(name: string, blob: Blob): Promise<ZipFile> {
    const file = new PartialFile(name, blob);
    return new ZipFile(file, blob, await readDirectory(file));
  }

  /**
   * An entry's bytes. A stored one is a slice of the file, unread; a deflated one is unpacked, and its checksum compared.
   *
   * @throws (rejects) DataError, with the byte, if it is damaged, encrypted or packed in another way.
   */
  async blob(entry: ZipEntry): Promise<Blob> {
    const { path, offset, packedSize, size, method, crc32 } = entry;
    const fail = (at: number, what: string, cause?: unknown): never => {
      throw new DataError(`${this.#file.name}: ${path} at byte ${at} ${what}`, {}, { cause });
    };
    if (entry.isEncrypted) return fail(offset, 'is encrypted: pack the files without a password.');
    if (method !== STORED && method !== DEFLATED) {
      return fail(
        offset,
        `is packed by method ${method}, and only stored and deflated files can be read: pack it anew.`,
      );
    }
    const header = viewOf(await this.#file.read(offset, offset + LOCAL_BYTES));
    if (header.byteLength < LOCAL_BYTES || header.getUint32(0, true) !== LOCAL_HEADER) {
      return fail(offset, 'is not there: the file is damaged. Download or pack it again.');
    }
    const start = offset + LOCAL_BYTES + header.getUint16(26, true) + header.getUint16(28, true);
    const packed = this.#blob.slice(start, start + packedSize);
    if (packed.size < packedSize) return fail(start, `ends too early, at byte ${this.#file.size}: download it again.`);
    if (method === STORED) {
      if (packedSize !== size)
        return fail(start, `has ${packedSize} bytes, and the directory says ${size}: it is damaged.`);
      return packed;
    }
    if (size > MAX_UNPACKED_BYTES) return fail(start, `would unpack to ${size} bytes: pack it without compression.`);
    try {
      return await inflate(packed, size, crc32);
    } catch (cause) {
      return fail(start, `cannot be unpacked: it is damaged. Download or pack ${this.#file.name} again.`, cause);
    }
  }
}

/** The platform unpacks gzip, and compares length and checksum; that is deflated data between ten bytes and eight. */
async function inflate(packed: Blob, size: number, crc32: number): Promise<Blob> {
  const head = Uint8Array.of(0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff);
  const tail = new DataView(new ArrayBuffer(8));
  tail.setUint32(0, crc32, true);
  tail.setUint32(4, size % 2 ** 32, true);
  const reader = new Blob([head, packed, tail.buffer])
    .stream()
    .pipeThrough(new DecompressionStream('gzip'))
    .getReader();
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let length = 0;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return new Blob(parts);
    length += value.length;
    if (length > size) {
      await reader.cancel().catch(() => undefined);
      throw new DataError(`more than ${size} bytes come out`);
    }
    parts.push(value);
  }
}

async function readDirectory(file: PartialFile): Promise<ZipEntry[]> {
  const { name } = file;
  const { count, offset, size, shift } = await findDirectory(file);
  if (size > MAX_DIRECTORY_BYTES)
    throw new DataError(`${name} has a directory of ${size} bytes: pack it in several files.`);
  const bytes = await file.read(offset, offset + size);
  const view = viewOf(bytes);
  const entries: ZipEntry[] = [];
  let at = 0;
  for (let i = 0; i < count; i++) {
    if (at + ENTRY_BYTES > bytes.length || view.getUint32(at, true) !== DIRECTORY_ENTRY) {
      throw new DataError(
        `${name} is damaged at byte ${offset + at}: entry ${i + 1} of ${count} of its directory is not there. Download or ` +
          'pack it again.',
      );
    }
    const nameLength = view.getUint16(at + 28, true);
    const extraLength = view.getUint16(at + 30, true);
    const path = decodeName(
      bytes.subarray(at + ENTRY_BYTES, at + ENTRY_BYTES + nameLength),
      view.getUint16(at + 8, true),
    );
    const wide = wideFields(bytes.subarray(at + ENTRY_BYTES + nameLength, at + ENTRY_BYTES + nameLength + extraLength));
    const field = (fieldAt: number): number => {
      const value = view.getUint32(at + fieldAt, true);
      return value === 0xffffffff ? (wide.shift() ?? value) : value;
    };
    // In this order: it is that of the wide ones.
    const [unpacked, packed, header] = [field(24), field(20), field(42)];
    if (!path.endsWith('/')) {
      entries.push({
        ...{ path, size: unpacked, packedSize: packed, offset: header + shift },
        crc32: view.getUint32(at + 16, true),
        method: view.getUint16(at + 10, true),
        isEncrypted: (view.getUint16(at + 8, true) & IS_ENCRYPTED) !== 0,
      });
    }
    at += ENTRY_BYTES + nameLength + extraLength + view.getUint16(at + 32, true);
  }
  return entries;
}

interface Directory {
  count: number;
  /** Its place in the file, bytes. */
  offset: number;
  size: number;
  /** Length of what precedes the archive in the file, such as a program that unpacks it: offsets count from the archive's start. */
  shift: number;
}

async function findDirectory(file: PartialFile): Promise<Directory> {
  const { name } = file;
  const from = Math.max(0, file.size - END_BYTES - MAX_COMMENT_BYTES);
  const tail = viewOf(await file.read(from, file.size));
  let at = tail.byteLength - END_BYTES;
  while (at >= 0 && tail.getUint32(at, true) !== DIRECTORY_END) at--;
  if (at < 0) {
    const start = hexOf(await file.read(0, 4), ' ');
    throw new DataError(
      start === '50 4b 03 04'
        ? `${name} ends too early, at byte ${file.size}: a zip file's directory should be there. Download it again.`
        : `${name} is not a zip file: it starts with ${start === '' ? 'nothing' : start} at byte 0, where zip has 50 4b 03 04. ` +
            'Choose another file.',
    );
  }
  const found = {
    count: tail.getUint16(at + 10, true),
    size: tail.getUint32(at + 12, true),
    offset: tail.getUint32(at + 16, true),
  };
  const isWide = found.count === 0xffff || found.size === 0xffffffff || found.offset === 0xffffffff;
  if (tail.getUint16(at + 4, true) !== tail.getUint16(at + 6, true)) {
    throw new DataError(`${name} is one of several parts (byte ${from + at + 4}): pack the files into one.`);
  }
  const wide = isWide ? await findWideDirectory(file, from + at) : null;
  if (wide === null && (found.size === 0xffffffff || found.offset === 0xffffffff)) {
    throw new DataError(
      `${name} is damaged at byte ${from + at}: its zip64 directory is not there. Download it again.`,
    );
  }
  // Without a zip64 directory, a count of 65535 is just that.
  const { count, size, offset, end } = wide ?? { ...found, end: from + at };
  if (offset + size > file.size) {
    throw new DataError(
      `${name} is damaged at byte ${from + at}: its directory would end at byte ${offset + size}, and the file has ` +
        `${file.size}. Download it again.`,
    );
  }
  // The directory ends where its record begins, unless an archive has something in between.
  const shift = end - size - offset;
  const isThere = shift > 0 && (await beginsWith(file, offset + shift, DIRECTORY_ENTRY));
  return isThere ? { count, size, offset: offset + shift, shift } : { count, size, offset, shift: 0 };
}

/** `end`: the end of the directory, where the zip64 record begins. `null`: there is no such record. */
async function findWideDirectory(
  file: PartialFile,
  directoryEnd: number,
): Promise<(Omit<Directory, 'shift'> & { end: number }) | null> {
  const locatorAt = directoryEnd - LOCATOR_BYTES;
  if (locatorAt < 0 || !(await beginsWith(file, locatorAt, LOCATOR_64))) return null;
  const locator = viewOf(await file.read(locatorAt, directoryEnd));
  // The record usually precedes the locator. The offset that the locator states is wrong where something precedes the archive.
  for (const at of [locatorAt - END_64_BYTES, Number(locator.getBigUint64(8, true))]) {
    if (!(await beginsWith(file, at, DIRECTORY_END_64))) continue;
    const view = viewOf(await file.read(at, at + END_64_BYTES));
    const wide = (where: number): number => Number(view.getBigUint64(where, true));
    if (view.byteLength === END_64_BYTES) return { count: wide(32), size: wide(40), offset: wide(48), end: at };
  }
  return null;
}

async function beginsWith(file: PartialFile, at: number, signature: number): Promise<boolean> {
  if (at < 0 || at + 4 > file.size) return false;
  return viewOf(await file.read(at, at + 4)).getUint32(0, true) === signature;
}

/** The 64-bit numbers of an entry's extra field, in order. */
function wideFields(extra: Uint8Array): number[] {
  const view = viewOf(extra);
  for (let at = 0; at + 4 <= extra.length; at += 4 + view.getUint16(at + 2, true)) {
    const length = Math.min(view.getUint16(at + 2, true), extra.length - at - 4);
    if (view.getUint16(at, true) !== EXTRA_64) continue;
    return Array.from({ length: Math.floor(length / 8) }, (_, i) => Number(view.getBigUint64(at + 4 + 8 * i, true)));
  }
  return [];
}

/** Without the flag the encoding is anybody's guess; what is UTF-8 is hardly ever something else. */
function decodeName(bytes: Uint8Array, flags: number): string {
  if (flags & IS_UTF8) return new TextDecoder().decode(bytes);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder('latin1').decode(bytes);
  }
}

function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}
