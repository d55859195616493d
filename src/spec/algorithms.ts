/** The algorithms of an all-reduce, and which of them a world can run. */

export const ALL_REDUCE_NAMES = ['ring', 'two-level', 'halving-doubling', 'doubling'] as const;
export type AllReduceName = (typeof ALL_REDUCE_NAMES)[number];

/** With `auto`, the cost model chooses one of the other algorithms for each call. */
export const ALGORITHM_NAMES = ['auto', ...ALL_REDUCE_NAMES] as const;
export type AlgorithmName = (typeof ALGORITHM_NAMES)[number];

/**
 * Algorithms by which a run may send gradients or parameters. Parameter servers use `tree` and
 * `direct`. `none`: a world of one rank sends nothing.
 */
export const RUN_ALGORITHM_NAMES = [...ALL_REDUCE_NAMES, 'tree', 'direct', 'none'] as const;
export type RunAlgorithm = (typeof RUN_ALGORITHM_NAMES)[number];

/**
 * Returns the group size of the two-level all-reduce: the divisor of n that is closest to the
 * square root of n, because it results in the fewest steps. Returns 1 if n is prime or less than 4.
 */
export function twoLevelGroupSize(n: number): number {
  let size = Math.floor(Math.sqrt(n));
  while (n % size > 0) size -= 1;
  return size;
}

/**
 * Returns why `n` ranks cannot run the algorithm, as a clause, or `null` if they can.
 *
 * @param isEncoded whether a codec encodes the values.
 */
export function whyAlgorithmCannotRun(name: AlgorithmName, n: number, isEncoded = false): string | null {
  if (name === 'two-level' && n > 1 && twoLevelGroupSize(n) === 1) {
    return `two-level needs groups of equal size, but ${n} ranks cannot be divided into several groups of 2 or more`;
  }
  if (name === 'doubling' && isEncoded) {
    return 'doubling supports no codec, because two ranks would encode the same sum differently';
  }
  return null;
}
