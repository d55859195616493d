/** Elements of a tensor of that shape: 1 of a scalar's. */
export function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, side) => product * side, 1);
}
