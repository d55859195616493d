/**
 * Divides all `values` in place; does nothing if `by` is 0. IEEE division, so every machine gets
 * the same bits.
 */
export function divide(values: Float32Array, by: number): void {
  if (by > 0) for (let i = 0; i < values.length; i++) values[i]! /= by;
}
