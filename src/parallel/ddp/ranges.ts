/** Copies ranges of flat arrays into arrays without gaps, and back. */
import type { Range } from '../../util/range.ts';

export function sizeOf(ranges: readonly Range[]): number {
  return ranges.reduce((sum, { start, end }) => sum + end - start, 0);
}

/** Copies ranges of a flat array into one array without gaps. */
export function pack(flat: Float32Array, ranges: readonly Range[]): Float32Array<ArrayBuffer> {
  const packed = new Float32Array(sizeOf(ranges));
  let at = 0;
  for (const { start, end } of ranges) {
    packed.set(flat.subarray(start, end), at);
    at += end - start;
  }
  return packed;
}

/** Reverses {@link pack}. */
export function unpack(packed: Float32Array, flat: Float32Array, ranges: readonly Range[]): void {
  let at = 0;
  for (const { start, end } of ranges) {
    flat.set(packed.subarray(at, at + end - start), start);
    at += end - start;
  }
}

/** Returns the elements that are in both lists. */
export function intersect(a: readonly Range[], b: readonly Range[]): Range[] {
  return a.flatMap((one) =>
    b.flatMap((other) => {
      const start = Math.max(one.start, other.start);
      const end = Math.min(one.end, other.end);
      return start < end ? [{ start, end }] : [];
    }),
  );
}

/** Returns the elements of `ranges` that are not in `taken`. */
export function without(ranges: readonly Range[], taken: Range): Range[] {
  return ranges.flatMap(({ start, end }) =>
    [
      { start, end: Math.min(end, taken.start) },
      { start: Math.max(start, taken.end), end },
    ].filter((left) => left.start < left.end),
  );
}

/**
 * Returns where the elements of `ranges` are in an array that has the elements of `shard` without
 * gaps.
 */
export function withinShard(shard: readonly Range[], ranges: readonly Range[]): Range[] {
  let at = 0;
  return shard.flatMap((part) => {
    const offset = at - part.start;
    at += part.end - part.start;
    return intersect([part], ranges).map(({ start, end }) => ({ start: start + offset, end: end + offset }));
  });
}
