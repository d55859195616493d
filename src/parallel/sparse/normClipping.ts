/** Limits how much one rank can change the mean of all ranks. */

interface RankNorm {
  /** The rank's share of the mean; the shares of all ranks add up to 1. */
  weight: number;
  norm: number;
}

/**
 * Returns for each rank the share of its values that counts, 0 to 1: all, or less if its norm is
 * above the median norm. A rank's weight counts in the median, so that a rank with few samples
 * cannot limit those with most. Of two medians, the larger one is the limit.
 */
export function keptShares(ranks: readonly RankNorm[]): number[] {
  const limit = medianNorm(ranks);
  return ranks.map(({ norm }) => (norm > limit ? limit / norm : 1));
}

function medianNorm(ranks: readonly RankNorm[]): number {
  const half = ranks.reduce((sum, { weight }) => sum + weight, 0) / 2;
  let below = 0;
  for (const { weight, norm } of [...ranks].sort((a, b) => a.norm - b.norm)) {
    below += weight;
    if (below > half) return norm;
  }
  return 0;
}
