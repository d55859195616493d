/** The split into training and held-out samples, for files that do not define one. */
import { mixSeed, permutation } from '../util/rng.ts';

/** Separates the split's random numbers from the job's other random numbers. */
const SPLIT_WORD = 0x5e1d;

export interface Split {
  train: Uint32Array;
  test: Uint32Array;
}

/**
 * Holds out the last fifth of a seeded permutation of 0 .. n-1, at least one sample. Both parts are
 * sorted. All ranks compute the same split.
 */
export function trainTestSplit(n: number, seed: number): Split {
  const order = permutation(n, mixSeed(seed, SPLIT_WORD));
  const cut = Math.min(n - 1, Math.ceil((n * 4) / 5));
  return { train: order.slice(0, cut).sort(), test: order.slice(cut).sort() };
}
