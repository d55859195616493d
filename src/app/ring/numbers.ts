/**
 * The numbers of an all-reduce, for rings that are small enough to show them: the terms and the
 * sums of each chunk; pure.
 */
import { chunkRange } from '../../collectives/plans/ringPlan.ts';
import type { SummedRanks } from './frameAt.ts';

/** `numbers[rank]` is the vector of that rank before the all-reduce. */
export type RankVectors = readonly (readonly number[])[];

interface ChunkValues {
  /** Ranks in the sum, in the order of addition. */
  ranks: number[];
  /**
   * The terms of each element of the chunk. The vector is cut into chunks as in a real all-reduce.
   * If it has fewer elements than there are ranks, some chunks have no elements.
   */
  elements: ElementValues[];
}

interface ElementValues {
  /** The number that each rank adds to the sum. */
  terms: number[];
  /** The partial sums. The last one is the content of the chunk. */
  sums: number[];
}

/** Returns the terms and sums of a copy of `chunk` whose sum includes the ranks `parts`. */
export function chunkValuesOf(parts: SummedRanks, numbers: RankVectors, chunk: number): ChunkValues {
  const n = numbers.length;
  const ranks = [...parts];
  const { start, end } = chunkRange(numbers[0]?.length ?? 0, n, chunk);
  const elements = Array.from({ length: end - start }, (_, i) => {
    const terms = ranks.map((rank) => numbers[rank]![start + i]!);
    let sum = 0;
    return { terms, sums: terms.map((term, at) => (sum = at === 0 ? term : sum + term)) };
  });
  return { ranks, elements };
}

/** Returns the current value of each element of the chunk. */
export function currentChunkValues(parts: SummedRanks, numbers: RankVectors, chunk: number): number[] {
  return chunkValuesOf(parts, numbers, chunk).elements.map(({ sums }) => sums.at(-1)!);
}

/** Returns the sum of each element as text: `3 + 5 + 2 = 10`. A single term is written alone. */
export function formatChunkSums(parts: SummedRanks, numbers: RankVectors, chunk: number): string[] {
  return chunkValuesOf(parts, numbers, chunk).elements.map(({ terms, sums }) =>
    terms.length === 1
      ? formatCellValue(terms[0]!)
      : `${terms.map(asTerm).join(' + ')} = ${formatCellValue(sums.at(-1)!)}`,
  );
}

/**
 * Returns a number as text, such as `3`, `−0.25` or `17.1`. It has at most two decimals, so that it
 * fits in a cell.
 */
export function formatCellValue(value: number): string {
  return String(Number(value.toFixed(2))).replace('-', '−');
}

function asTerm(value: number): string {
  return value < 0 ? `(${formatCellValue(value)})` : formatCellValue(value);
}

/** The largest sizes of numbers and texts during the whole all-reduce. */
export interface RankVectorsExtent {
  /** The largest absolute value, which scales the colours. */
  largest: number;
  /**
   * The number of letters of the longest text of a chunk. The text lists all elements of the chunk.
   */
  letters: number;
}

export function rankVectorsExtentOf(numbers: RankVectors): RankVectorsExtent {
  const n = numbers.length;
  let largest = 0;
  let letters = 0;
  const meet = (parts: SummedRanks, chunk: number): void => {
    const values = currentChunkValues(parts, numbers, chunk);
    largest = Math.max(largest, ...values.map(Math.abs));
    letters = Math.max(letters, values.map(formatCellValue).join(', ').length);
  };
  for (let chunk = 0; chunk < n; chunk++) {
    // A copy of a chunk holds either the numbers of a single rank, or a partial sum. A partial sum
    // of chunk c starts with the numbers of rank c + 1.
    for (let i = 1; i <= n; i++) {
      meet([i - 1], chunk);
      meet(
        Array.from({ length: i }, (_, k) => (chunk + 1 + k) % n),
        chunk,
      );
    }
  }
  return { largest, letters };
}
