/**
 * Seeded random numbers, the same on every machine. They use integer operations, `*` and `/`. They
 * never use `Math.sin`, `log` or `pow`, whose last bits differ between engines.
 */

/** Uniform numbers in [0, 1). */
export interface Rng {
  /** A float in [0, 1) with 32 random bits. */
  next(): number;
  /** An integer in [0, n). */
  below(n: number): number;
}

/** Mixes integers into one 32-bit seed (the finalizer of MurmurHash3 after each word). */
export function mixSeed(...words: number[]): number {
  let h = 0x9e3779b9;
  for (const word of words) {
    h = Math.imul(h ^ (word >>> 0), 0x85ebca6b);
    h ^= h >>> 13;
    h = Math.imul(h, 0xc2b2ae35);
    h ^= h >>> 16;
  }
  return h >>> 0;
}

/**
 * Returns mulberry32, Tommy Ettinger's 32-bit generator. It has one word of state and passes the
 * test suite gjrand. That is sufficient for generated data and shuffles.
 */
export function createRng(seed: number): Rng {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return { next, below: (n) => Math.floor(next() * n) };
}

/**
 * Returns a permutation of 0 .. n-1 by a Fisher-Yates shuffle. With the same seed it is the same on
 * every machine.
 */
export function seededPermutation(n: number, seed: number): Uint32Array {
  const rng = createRng(seed);
  const out = new Uint32Array(n);
  for (let i = 0; i < n; i++) out[i] = i;
  for (let i = n - 1; i > 0; i--) {
    const j = rng.below(i + 1);
    const swap = out[i]!;
    out[i] = out[j]!;
    out[j] = swap;
  }
  return out;
}
