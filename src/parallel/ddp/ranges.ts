/** Copies ranges of flat arrays into arrays without gaps, and back. */
import type { ElementRange } from '../../util/range.ts';

export function totalRangeLength(ranges: readonly ElementRange[]): number {
  return ranges.reduce((sum, { start, end }) => sum + end - start, 0);
}

/** Copies ranges of a flat array into one array without gaps. */
export function packRanges(flat: Float32Array, ranges: readonly ElementRange[]): Float32Array<ArrayBuffer> {
  const packed = new Float32Array(totalRangeLength(ranges));
  let at = 0;
  for (const { start, end } of ranges) {
    packed.set(flat.subarray(start, end), at);
    at += end - start;
  }
  return packed;
}

/** Reverses {@link packRanges}. */
export function unpackRanges(packed: Float32Array, flat: Float32Array, ranges: readonly ElementRange[]): void {
  let at = 0;
  for (const { start, end } of ranges) {
    flat.set(packed.subarray(at, at + end - start), start);
    at += end - start;
  }
}

/** Returns the elements that are in both lists. */
export function intersectRanges(a: readonly ElementRange[], b: readonly ElementRange[]): ElementRange[] {
  return a.flatMap((one) =>
    b.flatMap((other) => {
      const start = Math.max(one.start, other.start);
      const end = Math.min(one.end, other.end);
      return start < end ? [{ start, end }] : [];
    }),
  );
}

/** Returns the elements of `ranges` that are not in `taken`. */
export function rangesWithout(ranges: readonly ElementRange[], taken: ElementRange): ElementRange[] {
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
export function rangesWithinShard(shard: readonly ElementRange[], ranges: readonly ElementRange[]): ElementRange[] {
  let at = 0;
  return shard.flatMap((part) => {
    const offset = at - part.start;
    at += part.end - part.start;
    return intersectRanges([part], ranges).map(({ start, end }) => ({ start: start + offset, end: end + offset }));
  });
}
