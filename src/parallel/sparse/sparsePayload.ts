/**
 * Encodes the largest entries of chunks of values. An entry has two bits: its sign, and whether its
 * magnitude is above the mean magnitude of the chunk's entries. The receiver gets one mean for all
 * entries above the mean, and another one for all other entries.
 *
 * A payload has two float32 numbers (little-endian) for each chunk, which are the two means, and
 * then the indices and bits of all entries.
 */
import { PeergradError } from '../../util/errors.ts';
import { BitReader, BitWriter } from './bits.ts';
import { sparseChunksOf, readEntries, writeEntries } from './chunks.ts';
import { indicesOfLargest } from './largest.ts';

/**
 * Number of entries that SparseLoCo sends of each chunk. docs/STRATEGIES.md has the measurements.
 */
export const SPARSE_CHUNK_ENTRIES = 128;
/**
 * Bytes of a payload, as a share of the bytes of all parameters; measured with {@link
 * SPARSE_CHUNK_ENTRIES} entries.
 */
export const SPARSE_PAYLOAD_SIZE_RATIO = 0.0091;

/** Bytes of the two means of a chunk. */
export const SPARSE_CHUNK_MEANS_BYTES = 8;

/**
 * Encodes the largest entries of each chunk of `values`, and subtracts from `values` exactly what a
 * receiver adds.
 *
 * @param entries number of entries of a whole chunk.
 */
export function encodeLargestEntries(values: Float32Array, entries: number): Uint8Array<ArrayBuffer> {
  const chunks = sparseChunksOf(values.length, entries);
  const header = new DataView(new ArrayBuffer(chunks.length * SPARSE_CHUNK_MEANS_BYTES));
  const bits = new BitWriter();
  for (const [i, { start, length, count, lowBits }] of chunks.entries()) {
    const chunk = values.subarray(start, start + length);
    const largest = indicesOfLargest(chunk, count);
    const mean = meanOf(chunk, largest);
    const levelOf = (index: number): number => (Math.abs(chunk[index]!) > mean ? 1 : 0);
    const means = [0, 1].map((level) => {
      const levelMean = Math.fround(
        meanOf(
          chunk,
          largest.filter((index) => levelOf(index) === level),
        ),
      );
      header.setFloat32(i * SPARSE_CHUNK_MEANS_BYTES + 4 * level, levelMean, true);
      return levelMean;
    });
    writeEntries(bits, largest, lowBits, (index) => {
      const isNegative = chunk[index]! < 0;
      const level = levelOf(index);
      bits.write(isNegative ? 1 : 0, 1);
      bits.write(level, 1);
      chunk[index]! -= isNegative ? -means[level]! : means[level]!;
    });
  }
  const payload = new Uint8Array(header.byteLength + bits.bytes.length);
  payload.set(new Uint8Array(header.buffer));
  payload.set(bits.bytes, header.byteLength);
  return payload;
}

/**
 * Returns `size` values: those that were sent, and zeros.
 *
 * @param from the rank that has sent the payload.
 * @throws PeergradError if the payload does not have `size` values.
 */
export function decodeLargestEntries(payload: Uint8Array, size: number, entries: number, from: number): Float32Array {
  const values = new Float32Array(size);
  const chunks = sparseChunksOf(size, entries);
  const headerBytes = chunks.length * SPARSE_CHUNK_MEANS_BYTES;
  if (payload.length < headerBytes) {
    throw new PeergradError(
      `Rank ${from} has sent ${payload.length} bytes for ${size} parameters, fewer than ${headerBytes}. Reload the page on every machine, so that all have the same version.`,
    );
  }
  const header = new DataView(payload.buffer, payload.byteOffset, headerBytes);
  const bits = new BitReader(payload.subarray(headerBytes), from);
  for (const [i, chunk] of chunks.entries()) {
    readEntries(bits, chunk, (index) => {
      const isNegative = bits.read(1) === 1;
      const mean = header.getFloat32(i * SPARSE_CHUNK_MEANS_BYTES + 4 * bits.read(1), true);
      values[chunk.start + index] = isNegative ? -mean : mean;
    });
  }
  return values;
}

/** Returns the mean magnitude of the values at `indices`; 0 if there are none. */
function meanOf(values: Float32Array, indices: Uint32Array): number {
  let sum = 0;
  for (const index of indices) sum += Math.abs(values[index]!);
  return indices.length > 0 ? sum / indices.length : 0;
}
