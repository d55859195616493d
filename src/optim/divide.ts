import { divideByVectors } from './vectors.ts';

/**
 * Divides all `values` in place by `by`; does nothing if `by` is 0. IEEE division returns the same
 * bits on every machine.
 */
export function divide(values: Float32Array, by: number): void {
  if (!(by > 0) || by === 1 || divideByVectors(values, by)) return;
  for (let i = 0; i < values.length; i++) values[i]! /= by;
}
