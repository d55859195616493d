/** Limits how much one rank can change the mean of all ranks. */

interface RankNorm {
  /** The rank's share of the mean; the shares of all ranks add up to 1. */
  weight: number;
  norm: number;
}

/**
 * Returns a factor for the values of each rank: 1, or less if the rank's norm is above the limit,
 * which is the median norm. The median is weighted by the ranks' weights, so that ranks with few
 * samples cannot limit those with most samples. If there are two medians, the larger one is the
 * limit.
 */
export function medianNormClippingFactors(ranks: readonly RankNorm[]): number[] {
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
