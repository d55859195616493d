/** Helpers that create the values that cases send and expect. */

export const one = (value: number): Float32Array => Float32Array.of(value);
export const empty = (): Float32Array => new Float32Array(0);
export const filled = (count: number, value: number): Float32Array => new Float32Array(count).fill(value);
export const floats = (count: number, value: (i: number) => number): Float32Array =>
  Float32Array.from({ length: count }, (_, i) => value(i));

export const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
/** Returns 0 + 1 + .. + (n-1). */
export const sumOfRanks = (n: number): number => (n * (n - 1)) / 2;

/** `range(3)` is 0, 1, 2; `range(1, 3)` is 1, 2, 3. */
export function range(first: number, last?: number): number[] {
  const [from, to] = last === undefined ? [0, first - 1] : [first, last];
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => from + i);
}
