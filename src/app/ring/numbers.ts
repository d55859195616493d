/**
 * Numbers of an all-reduce that is small enough to show them: content of a chunk, and its sum;
 * pure.
 */
import { chunkRange } from '../../collectives/plans/ringPlan.ts';
import type { Parts } from './frameAt.ts';

/** `numbers[rank]`: that rank's own vector before the all-reduce. */
export type Numbers = readonly (readonly number[])[];

interface ChunkValues {
  /** Ranks in the sum, in the order of addition. */
  ranks: number[];
  /**
   * Terms by element of the chunk, as the executor cuts the vector; empty if the vector has fewer
   * elements than ranks.
   */
  elements: ElementValues[];
}

interface ElementValues {
  /** Each rank's own number. */
  terms: number[];
  /** Partial sums; the last is the content of the chunk. */
  sums: number[];
}

/** The content of a copy of `chunk` with `parts`. */
export function valuesOf(parts: Parts, numbers: Numbers, chunk: number): ChunkValues {
  const n = numbers.length;
  const ranks = Array.from({ length: parts.count }, (_, i) => (parts.first + i) % n);
  const { start, end } = chunkRange(numbers[0]?.length ?? 0, n, chunk);
  const elements = Array.from({ length: end - start }, (_, i) => {
    const terms = ranks.map((rank) => numbers[rank]![start + i]!);
    let sum = 0;
    return { terms, sums: terms.map((term, at) => (sum = at === 0 ? term : sum + term)) };
  });
  return { ranks, elements };
}

/** The present value of each element of the chunk. */
export function currentValues(parts: Parts, numbers: Numbers, chunk: number): number[] {
  return valuesOf(parts, numbers, chunk).elements.map(({ sums }) => sums.at(-1)!);
}

/** The sum of each element: `3 + 5 + 2 = 10`; a single term is itself. */
export function sumsOf(parts: Parts, numbers: Numbers, chunk: number): string[] {
  return valuesOf(parts, numbers, chunk).elements.map(({ terms, sums }) =>
    terms.length === 1 ? formatValue(terms[0]!) : `${terms.map(asTerm).join(' + ')} = ${formatValue(sums.at(-1)!)}`,
  );
}

/** `3`, `-0.25`, `17.1`: at most two decimals, which fit in a cell. */
export function formatValue(value: number): string {
  return String(Number(value.toFixed(2))).replace('-', '−');
}

function asTerm(value: number): string {
  return value < 0 ? `(${formatValue(value)})` : formatValue(value);
}

/** Largest numbers and longest texts during the whole all-reduce. */
export interface Extent {
  /** The largest absolute value, which scales the colours. */
  largest: number;
  /** Letters of the longest chunk, its elements in a row. */
  letters: number;
}

export function extentOf(numbers: Numbers): Extent {
  const n = numbers.length;
  let largest = 0;
  let letters = 0;
  const meet = (parts: Parts, chunk: number): void => {
    const values = currentValues(parts, numbers, chunk);
    largest = Math.max(largest, ...values.map(Math.abs));
    letters = Math.max(letters, values.map(formatValue).join(', ').length);
  };
  for (let chunk = 0; chunk < n; chunk++) {
    // A chunk is a rank's own, or a partial sum that starts after its owner.
    for (let i = 1; i <= n; i++) {
      meet({ first: i - 1, count: 1 }, chunk);
      meet({ first: (chunk + 1) % n, count: i }, chunk);
    }
  }
  return { largest, letters };
}
