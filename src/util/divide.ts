/**
 * Divides all `values` in place by `by`; does nothing if `by` is 0. IEEE division returns the same
 * bits on every machine.
 */
export function divide(values: Float32Array, by: number): void {
  if (!(by > 0) || by === 1) return;
  // The inverse of a power of two is exact, and so a product has the bits of the quotient.
  const isPowerOfTwo = Number.isInteger(by) && by < 2 ** 31 && (by & (by - 1)) === 0;
  const inverse = 1 / by;
  if (isPowerOfTwo) for (let i = 0; i < values.length; i++) values[i]! *= inverse;
  else for (let i = 0; i < values.length; i++) values[i]! /= by;
}
