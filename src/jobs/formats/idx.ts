/**
 * IDX files of any type and shape, by rows: a plain one stays where it is, a gzipped one is unpacked into memory.
 *
 * Source: https://yann.lecun.com/exdb/mnist/ ("The IDX file format").
 */
import { DataError } from '../../util/errors.ts';
import { hexOf } from '../../util/hex.ts';
import { sizeOf } from '../../util/shape.ts';
import { bytesOf, StoredArray, type ElementType } from './array.ts';
import { PartialFile } from './partialFile.ts';

/** By IDX's codes. */
const TYPES: Partial<Record<number, ElementType>> = { 8: 'u1', 9: 'i1', 11: 'i2', 12: 'i4', 13: 'f4', 14: 'f8' };
const MAX_DIMENSIONS = 4;
/** Of a gzipped file: more is a gzip bomb, or should be unpacked on disk. */
const MAX_UNPACKED_BYTES = 512 * 1024 * 1024;

/** @throws (rejects) DataError, with the byte, if it is no IDX file, or of another length than its header says. */
export async function openIdx(name: string, blob: Blob): Promise<StoredArray> {
  const start = new Uint8Array(await blob.slice(0, 2).arrayBuffer());
  const isPacked = start[0] === 0x1f && start[1] === 0x8b;
  const file = new PartialFile(name, isPacked ? await gunzip(name, blob) : blob);
  const head = await file.read(0, 4 + 4 * MAX_DIMENSIONS);
  const [a, b, code = 0, dimensions = 0] = head;
  const type = TYPES[code];
  if (a !== 0 || b !== 0 || type === undefined || dimensions < 1 || dimensions > MAX_DIMENSIONS) {
    const found = hexOf(head.subarray(0, 4), ' ');
    throw new DataError(
      `${name} is not IDX: it starts with ${found === '' ? 'nothing' : found} at byte 0, where IDX has 00 00, a type (08, 09, 0b .. ` +
        `0e) and 1 to ${MAX_DIMENSIONS} dimensions. Download it again.`,
    );
  }
  const offset = 4 + 4 * dimensions;
  if (file.size < offset)
    throw new DataError(`${name} ends too early, at byte ${file.size} of its header. Download it again.`);
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  const shape = Array.from({ length: dimensions }, (_, i) => view.getUint32(4 + 4 * i));
  const end = offset + sizeOf(shape) * bytesOf(type);
  if (file.size !== end) {
    throw new DataError(
      `${name} ${file.size < end ? 'ends too early' : 'is longer than its header says'}: ${shape.join(' x ')} of ${type} from byte ` +
        `${offset} on end at byte ${end}, and the file at ${file.size}. Download it again.`,
    );
  }
  return new StoredArray(file, { shape, type, isLittleEndian: false, offset });
}

async function gunzip(name: string, blob: Blob): Promise<Blob> {
  const reader = blob.stream().pipeThrough(new DecompressionStream('gzip')).getReader();
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for (let length = 0; ;) {
    const { value, done } = await reader.read().catch((cause: unknown): never => {
      throw new DataError(
        `${name} cannot be unpacked: behind ${length} bytes its gzip data is damaged or ends. Download it again.`,
        {},
        { cause },
      );
    });
    if (done) return new Blob(parts);
    length += value.length;
    parts.push(value);
    if (length <= MAX_UNPACKED_BYTES) continue;
    await reader.cancel().catch(() => undefined);
    throw new DataError(
      `${name} unpacks to more than ${MAX_UNPACKED_BYTES} bytes: unpack it, and choose the plain file.`,
    );
  }
}
