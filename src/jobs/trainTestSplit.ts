/** Splits samples into training and held-out samples, for files that do not define a split. */
import { mixSeed, permutation } from '../util/rng.ts';

/**
 * Mixed into the seed, so that the split does not use the same random numbers as other parts of the
 * job.
 */
const SPLIT_WORD = 0x5e1d;

export interface Split {
  train: Uint32Array;
  test: Uint32Array;
}

/**
 * Splits 0 .. n-1. The last fifth of a seeded permutation is held out: n / 5 samples, rounded down,
 * but at least one. Both parts are sorted. All ranks compute the same split.
 */
export function trainTestSplit(n: number, seed: number): Split {
  const order = permutation(n, mixSeed(seed, SPLIT_WORD));
  const cut = Math.min(n - 1, Math.ceil((n * 4) / 5));
  return { train: order.slice(0, cut).sort(), test: order.slice(cut).sort() };
}
