/** The numbers of an all-reduce that is small enough to show them: what a chunk holds, and how its sum came about. Pure. */
import { chunkRange } from '../../collectives/ringPlan.ts';
import type { Frame, Parts } from './frameAt.ts';

/** `numbers[rank]`: that rank's own vector before the all-reduce. */
export type Numbers = readonly (readonly number[])[];

export interface ChunkValues {
  /** Whose numbers are in, in the order in which they are added. */
  ranks: number[];
  /** Of each element of the chunk, as the executor cuts the vector; none, where the vector has fewer elements than ranks. */
  elements: ElementValues[];
}

export interface ElementValues {
  /** What each of `ranks` put in. */
  terms: number[];
  /** After the first term, after the second …; the last is what the chunk holds. */
  sums: number[];
}

/** What `rank`'s copy of `chunk` holds in `frame`. */
export function valuesIn(frame: Frame, numbers: Numbers, rank: number, chunk: number): ChunkValues {
  return valuesOf(frame.cells[rank]![chunk]!, numbers, chunk);
}

/** The same of a chunk that holds `parts`. */
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

/** The largest number there is, at the start, at the end or on the way, without its sign: what colours are measured by. */
export function largestOf(numbers: Numbers): number {
  const n = numbers.length;
  let largest = 0;
  for (let chunk = 0; chunk < n; chunk++) {
    // Every partial sum of a chunk is on the way to this one; who is not in it yet holds a term.
    const whole = valuesOf({ first: (chunk + 1) % n, count: n }, numbers, chunk);
    for (const { terms, sums } of whole.elements)
      for (const one of [...terms, ...sums]) largest = Math.max(largest, Math.abs(one));
  }
  return largest;
}
