/**
 * Reader for IDX, the format of the MNIST files: two zero bytes, an element type, the number of
 * dimensions, each dimension as a big-endian 32-bit integer, then the elements. Plain files are
 * read on demand. Gzipped files are unpacked into memory.
 *
 * Source: https://yann.lecun.com/exdb/mnist/ ("The IDX file format").
 */
import { DataError } from '../util/errors.ts';
import { hexOf } from '../util/hex.ts';
import { elementCountOf } from '../util/shape.ts';
import { bytesPerElement, StoredArray, type StoredArrayLayout, type NumpyElementType } from './storedArray.ts';
import { PartialFile } from './partialFile.ts';

/** The element type of each IDX type code. */
const TYPES: Partial<Record<number, NumpyElementType>> = { 8: 'u1', 9: 'i1', 11: 'i2', 12: 'i4', 13: 'f4', 14: 'f8' };
const MAX_DIMENSIONS = 4;
const MAX_HEADER_BYTES = 4 + 4 * MAX_DIMENSIONS;
/**
 * Maximum size of an unpacked gzip file. The user must unpack a larger file on disk. The limit also
 * protects against gzip bombs.
 */
const MAX_UNPACKED_BYTES = 512 * 1024 * 1024;

/**
 * Opens an IDX file. Gzip is detected by the first bytes instead of the name, because some servers
 * send `.gz` files unpacked.
 *
 * @throws (rejects) DataError if the file is not IDX or its length differs from the length that
 *   follows from its header.
 */
export async function openIdx(name: string, blob: Blob): Promise<StoredArray> {
  const start = hexOf(new Uint8Array(await blob.slice(0, 2).arrayBuffer()), ' ');
  if (name.endsWith('.gz') && start !== '1f 8b' && start !== '00 00') {
    throw new DataError(
      `${name} is not gzip: it starts with ${start || 'nothing (it is empty)'}, but gzip files start with 1f 8b, and unpacked ` +
        'IDX files start with 00 00. It may be a web page that was saved under this name. Download the file again.',
    );
  }
  const file = new PartialFile(name, start === '1f 8b' ? await gunzip(name, blob) : blob);
  const layout = layoutOf(name, await file.read(0, MAX_HEADER_BYTES));
  const end = endOf(layout);
  if (file.size !== end) {
    const { shape, type, offset } = layout;
    throw new DataError(
      `${name} ${file.size < end ? 'ends too early' : 'is longer than its header says'}: ${shape.join(' x ')} elements of type ${type} start at byte ` +
        `${offset} and must end at byte ${end}, but the file ends at byte ${file.size}${file.size < end ? '' : ' or later'}. Download it again.`,
    );
  }
  return new StoredArray(file, layout);
}

function layoutOf(name: string, head: Uint8Array<ArrayBuffer>): StoredArrayLayout {
  const [a, b, code = 0, dimensions = 0] = head;
  const type = TYPES[code];
  if (a !== 0 || b !== 0 || type === undefined || dimensions < 1 || dimensions > MAX_DIMENSIONS) {
    throw new DataError(
      `${name} is not IDX: it starts with ${hexOf(head.subarray(0, 4), ' ') || 'nothing'} at byte 0, but IDX files start with 00 00, a type ` +
        `(08, 09, 0b .. 0e) and the number of dimensions (01 .. 0${MAX_DIMENSIONS}). Download it again.`,
    );
  }
  const offset = 4 + 4 * dimensions;
  if (head.length < offset)
    throw new DataError(`${name} ends too early, at byte ${head.length} of its header. Download it again.`);
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  const shape = Array.from({ length: dimensions }, (_, i) => view.getUint32(4 + 4 * i));
  return { shape, type, isLittleEndian: false, offset };
}

function endOf({ shape, type, offset }: StoredArrayLayout): number {
  return offset + elementCountOf(shape) * bytesPerElement(type);
}

/** Unpacks a gzipped file. Stops when there are more bytes than the IDX header implies. */
async function gunzip(name: string, blob: Blob): Promise<Blob> {
  const reader = blob.stream().pipeThrough(new DecompressionStream('gzip')).getReader();
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let end: number | null = null;
  try {
    for (let length = 0; ;) {
      const { value, done } = await reader.read().catch((cause: unknown): never => {
        throw new DataError(
          `${name} cannot be unpacked. Its gzip data is damaged or ends too early, after ${length} unpacked bytes. Download it again.`,
          {},
          { cause },
        );
      });
      if (done) return new Blob(parts);
      length += value.length;
      parts.push(value);
      if (end === null && length >= MAX_HEADER_BYTES)
        end = endOf(layoutOf(name, new Uint8Array(await new Blob(parts).slice(0, MAX_HEADER_BYTES).arrayBuffer())));
      if (length > MAX_UNPACKED_BYTES)
        throw new DataError(
          `${name} has more than ${MAX_UNPACKED_BYTES} bytes when unpacked. Unpack it on disk and choose the unpacked file.`,
        );
      if (end !== null && length > end) return new Blob(parts);
    }
  } finally {
    // Stops reading the file, unless it has been read to its end.
    await reader.cancel().catch(() => undefined);
  }
}
