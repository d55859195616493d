/** Returns the number of elements of a tensor with this shape; 1 for a scalar. */
export function elementCountOf(shape: readonly number[]): number {
  return shape.reduce((product, side) => product * side, 1);
}
