/**
 * Chunks of 4096 values, of which the largest entries are sent. Indices are sent as gaps, in
 * Golomb-Rice codes (Rice, "Some Practical Universal Noiseless Coding Techniques", 1979).
 */
import { PeergradError } from '../../util/errors.ts';
import type { BitReader, BitWriter } from './bits.ts';

/** Number of values of a chunk, 64 x 64. The last chunk may be shorter. */
export const SPARSE_CHUNK_SIZE = 4096;

/** The entries of a chunk that are sent. */
export interface SparseChunkEntries {
  /** Index of the chunk's first value, and number of its values. */
  start: number;
  length: number;
  count: number;
  /** Number of bits of a gap that follow its unary part. */
  lowBits: number;
}

/**
 * Divides `length` values into chunks.
 *
 * @param entries number of entries that are sent of each whole chunk.
 */
export function sparseChunksOf(length: number, entries: number): SparseChunkEntries[] {
  return Array.from({ length: Math.ceil(length / SPARSE_CHUNK_SIZE) }, (_, i) => {
    const start = i * SPARSE_CHUNK_SIZE;
    const size = Math.min(SPARSE_CHUNK_SIZE, length - start);
    const count = Math.min(size, Math.max(1, Math.round((entries * size) / SPARSE_CHUNK_SIZE)));
    return { start, length: size, count, lowBits: lowBitsForMeanGap(size / count) };
  });
}

/**
 * Returns {@link SparseChunkEntries.lowBits} for a mean gap. Gaps have a geometric distribution.
 * The code divides gaps by a power of two; the power just below ln 2 times the mean gap is nearly
 * the best. Math.log2 is not used, because its last bit differs between engines.
 */
export function lowBitsForMeanGap(meanGap: number): number {
  let bits = 0;
  while (2 ** (bits + 1) <= Math.LN2 * meanGap) bits += 1;
  return bits;
}

/** Writes the indices of a chunk's entries, ascending; calls `writeEntry` after each index. */
export function writeEntries(
  bits: BitWriter,
  indices: Uint32Array,
  lowBits: number,
  writeEntry: (index: number) => void,
): void {
  let next = 0;
  for (const index of indices) {
    const gap = index - next;
    bits.writeUnary(gap >>> lowBits);
    bits.write(gap, lowBits);
    writeEntry(index);
    next = index + 1;
  }
}

/**
 * Reads the indices that {@link writeEntries} has written; calls `readEntry` after each index.
 *
 * @throws PeergradError if an index is not in the chunk.
 */
export function readEntries(
  bits: BitReader,
  { length, count, lowBits }: SparseChunkEntries,
  readEntry: (index: number) => void,
): void {
  let next = 0;
  for (let entry = 0; entry < count; entry++) {
    const index = next + bits.readUnary() * 2 ** lowBits + bits.read(lowBits);
    if (index >= length) {
      throw new PeergradError(
        `Rank ${bits.from} has sent an entry with index ${index} in a chunk of ${length} values. Reload the page on every machine, so that all have the same version.`,
      );
    }
    readEntry(index);
    next = index + 1;
  }
}
