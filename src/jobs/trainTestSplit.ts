/** Which samples are held out, where files do not say. */
import { mixSeed, permutation } from '../util/rng.ts';

/** Keeps the choice apart from the job's other random numbers. */
const SPLIT_WORD = 0x5e1d;

export interface Split {
  train: Uint32Array;
  test: Uint32Array;
}

/**
 * The last fifth of a seeded permutation of 0 .. n-1 is held out, at least one; each part is in
 * order. The same on all ranks.
 */
export function trainTestSplit(n: number, seed: number): Split {
  const order = permutation(n, mixSeed(seed, SPLIT_WORD));
  const cut = Math.min(n - 1, Math.ceil((n * 4) / 5));
  return { train: order.slice(0, cut).sort(), test: order.slice(cut).sort() };
}
