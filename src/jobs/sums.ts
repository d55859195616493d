/** Mean and deviation of numbers as they come, and of parts of them put together. */
import type { Sums } from '../spec/dataFacts.ts';

export function noSums(): Sums {
  return { count: 0, mean: 0, squares: 0 };
}

/** Welford, Note on a method for calculating corrected sums of squares and products, 1962. */
export function addTo(sums: Sums, value: number): void {
  sums.count++;
  const distance = value - sums.mean;
  sums.mean += distance / sums.count;
  sums.squares += distance * (value - sums.mean);
}

/**
 * Of all parts' numbers, to the bit the same in whatever order they are (Chan, Golub and LeVeque,
 * Algorithms for Computing the Sample Variance, 1983).
 */
export function joinSums(parts: readonly Sums[]): Sums {
  const filled = parts
    .filter(({ count }) => count > 0)
    .sort((a, b) => a.count - b.count || a.mean - b.mean || a.squares - b.squares);
  return filled.slice(1).reduce((a, b) => {
    const count = a.count + b.count;
    const distance = b.mean - a.mean;
    return {
      count,
      mean: a.mean + (distance * b.count) / count,
      squares: a.squares + b.squares + (distance * distance * a.count * b.count) / count,
    };
  }, filled[0] ?? noSums());
}

/** Of the numbers themselves, not of a sample of more; 0 where there are none. */
export function deviationOf({ count, squares }: Sums): number {
  return count === 0 ? 0 : Math.sqrt(squares / count);
}
