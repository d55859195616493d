/** Arithmetic on flat arrays of values. */

export function l2NormOf(parts: readonly Float32Array[]): number {
  let sum = 0;
  for (const part of parts) for (const value of part) sum += value * value;
  return Math.sqrt(sum);
}

/** Adds `scale` times `values` to the first elements of `into`. */
export function addScaled(into: Float32Array, values: Float32Array, scale: number): void {
  for (let i = 0; i < values.length; i++) into[i]! += scale * values[i]!;
}
