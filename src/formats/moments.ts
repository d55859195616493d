/**
 * Computes count, mean and sum of squared deviations of numbers, one number at a time, and merges
 * the results of several parts.
 */
import type { Moments } from '../spec/dataFacts.ts';

/**
 * The largest supported number. The limit keeps the sum of squares over all samples from
 * overflowing.
 */
export const MAX_DATA_NUMBER = 1e150;

export function emptyMoments(): Moments {
  return { count: 0, mean: 0, squares: 0 };
}

/**
 * Adds one number. Source: Welford, "Note on a method for calculating corrected sums of squares and
 * products", 1962.
 */
export function addToMoments(moments: Moments, value: number): void {
  moments.count++;
  const distance = value - moments.mean;
  moments.mean += distance / moments.count;
  moments.squares += distance * (value - moments.mean);
}

/**
 * Returns the moments of all parts together. The result is the same, bit for bit, for any order of
 * the parts. Source: Chan, Golub and LeVeque, "Algorithms for Computing the Sample Variance", 1983.
 */
export function mergeMoments(parts: readonly Moments[]): Moments {
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
  }, filled[0] ?? emptyMoments());
}

/** Returns the population standard deviation; 0 for a count of 0. */
export function standardDeviation({ count, squares }: Moments): number {
  return count === 0 ? 0 : Math.sqrt(squares / count);
}
