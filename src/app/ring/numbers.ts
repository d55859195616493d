/**
 * The numbers of an all-reduce that is small enough to show them: what a chunk holds, and how its
 * sum came about. Pure.
 */
import { chunkRange } from '../../collectives/plans/ringPlan.ts';
import type { Parts } from './frameAt.ts';

/** `numbers[rank]`: that rank's own vector before the all-reduce. */
export type Numbers = readonly (readonly number[])[];

interface ChunkValues {
  /** Whose numbers are in, in the order in which they are added. */
  ranks: number[];
  /**
   * Of each element of the chunk, as the executor cuts the vector; none, where the vector has fewer
   * elements than ranks.
   */
  elements: ElementValues[];
}

interface ElementValues {
  /** What each of `ranks` put in. */
  terms: number[];
  /** After the first term, after the second …; the last is what the chunk holds. */
  sums: number[];
}

/** What a copy of `chunk` holds that has `parts`. */
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

/** What each element of the chunk is by now. */
export function currentValues(parts: Parts, numbers: Numbers, chunk: number): number[] {
  return valuesOf(parts, numbers, chunk).elements.map(({ sums }) => sums.at(-1)!);
}

/** Each element's sum written out: `3 + 5 + 2 = 10`; a single term is itself. */
export function sumsOf(parts: Parts, numbers: Numbers, chunk: number): string[] {
  return valuesOf(parts, numbers, chunk).elements.map(({ terms, sums }) =>
    terms.length === 1 ? formatValue(terms[0]!) : `${terms.map(asTerm).join(' + ')} = ${formatValue(sums.at(-1)!)}`,
  );
}

/** `3`, `-0.25`, `17.1`: at most two digits behind the point, which is what fits in a cell. */
export function formatValue(value: number): string {
  return String(Number(value.toFixed(2))).replace('-', '−');
}

function asTerm(value: number): string {
  return value < 0 ? `(${formatValue(value)})` : formatValue(value);
}

/** How much room numbers and colours need, at the start, at the end and on the way. */
export interface Extent {
  /** The largest of all numbers, without its sign: what colours are measured by. */
  largest: number;
  /** Letters of the longest chunk, its elements one after another. */
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
    // What a chunk is at some time: somebody's own, or a part of the sum that begins behind its
    // owner.
    for (let i = 1; i <= n; i++) {
      meet({ first: i - 1, count: 1 }, chunk);
      meet({ first: (chunk + 1) % n, count: i }, chunk);
    }
  }
  return { largest, letters };
}
