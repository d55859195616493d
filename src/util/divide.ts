/**
 * Divides all `values` in place; by 0, nothing. Exact IEEE, so every machine gets the same bits.
 */
export function divide(values: Float32Array, by: number): void {
  if (by > 0) for (let i = 0; i < values.length; i++) values[i]! /= by;
}
