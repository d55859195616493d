/** Limits how much one rank can change the mean of all ranks. */
import { median } from '../../util/statistics.ts';

/** Returns the Euclidean norm of all values together. */
export function normOf(parts: readonly Float32Array[]): number {
  let sum = 0;
  for (const part of parts) for (const value of part) sum += value * value;
  return Math.sqrt(sum);
}

/**
 * Returns the factor of each rank's values in the mean: its weight, or less if its norm is above
 * the median of the ranks that have a weight.
 */
export function scalesOf(ranks: readonly { weight: number; norm: number }[]): number[] {
  const limit = median(ranks.filter(({ weight }) => weight > 0).map(({ norm }) => norm));
  return ranks.map(({ weight, norm }) => (norm > limit ? (weight * limit) / norm : weight));
}
