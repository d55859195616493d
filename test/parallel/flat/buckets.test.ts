import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  assignBuckets,
  createFlatLayout,
  mergedSlotRanges,
  rearrangeParameters,
} from '../../../src/parallel/flat/buckets.ts';

const f32 = (elements: number) => ({ bytes: elements * 4, dtype: 'float32' });
const f64 = (elements: number) => ({ bytes: elements * 8, dtype: 'float64' });
const mixed = (pairs: number) => Array.from({ length: pairs }, () => [f32(50), f64(25)]).flat();

describe('assignBuckets', () => {
  // Inputs and results of PyTorch's own tests of compute_bucket_assignment_by_size.
  test.each([
    ['one limit after the other', Array.from({ length: 4 }, () => f32(10)), [40, 80], [[0], [1, 2], [3]]],
    ['two dtypes, one limit', mixed(3), [400], [[0, 2], [1, 3], [4], [5]]],
    ['two dtypes, two limits', mixed(3), [200, 400], [[0], [1], [2, 4], [3, 5]]],
    ['two dtypes, more tensors', mixed(5), [200, 400], [[0], [1], [2, 4], [3, 5], [6, 8], [7, 9]]],
    ['tensors as large as the limit', Array.from({ length: 4 }, () => f32(100)), [400], [[0], [1], [2], [3]]],
  ])('returns the same buckets as PyTorch: %s', (_name, items, limits, expected) => {
    expect(assignBuckets(items, limits)).toEqual(expected);
  });
});

describe('createFlatLayout', () => {
  test('places parameters from the last to the first', () => {
    const { slots, size } = createFlatLayout([5, 3, 2]);
    expect(slots.map(({ parameter, offset }) => [parameter, offset])).toEqual([
      [2, 0],
      [1, 2],
      [0, 5],
    ]);
    expect(size).toBe(10);
  });

  test('places parameters in the given order', () => {
    const { slots } = createFlatLayout([5, 3, 2], { order: [1, 0, 2] });
    expect(slots.map(({ parameter, offset }) => [parameter, offset])).toEqual([
      [1, 0],
      [0, 3],
      [2, 8],
    ]);
  });

  test('covers every parameter once, in contiguous buckets', () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 5000 }), { minLength: 1, maxLength: 40 });
    const bytes = fc.integer({ min: 1, max: 20_000 });
    fc.assert(
      fc.property(sizes, bytes, bytes, (elements, firstBucketBytes, bucketCapBytes) => {
        const layout = createFlatLayout(elements, { firstBucketBytes, bucketCapBytes });
        expect(layout.slots.map(({ parameter }) => parameter).sort((a, b) => a - b)).toEqual([...elements.keys()]);
        let at = 0;
        for (const { start, end, slots } of layout.buckets) {
          expect(start).toBe(at);
          for (const { offset, size, parameter } of slots) {
            expect([offset, size]).toEqual([at, elements[parameter]]);
            at += size;
          }
          expect(end).toBe(at);
        }
        expect(at).toBe(layout.size);
      }),
    );
  });
});

describe('rearrangeParameters', () => {
  test('moves every parameter to its new position', () => {
    const sizes = [2, 1, 3];
    const flat = Float32Array.of(31, 32, 33, 20, 10, 11);
    rearrangeParameters(flat, createFlatLayout(sizes), createFlatLayout(sizes, { order: [1, 2, 0] }));
    expect(flat).toEqual(Float32Array.of(20, 31, 32, 33, 10, 11));
    rearrangeParameters(flat, createFlatLayout(sizes, { order: [1, 2, 0] }), createFlatLayout(sizes));
    expect(flat).toEqual(Float32Array.of(31, 32, 33, 20, 10, 11));
  });
});

describe('mergedSlotRanges', () => {
  const { slots } = createFlatLayout([1, 2, 3, 4]);
  const of = (...parameters: number[]) => mergedSlotRanges(slots, ({ parameter }) => parameters.includes(parameter));

  test('merges adjacent ranges', () => {
    expect(of(0, 1, 2, 3)).toEqual([{ start: 0, end: 10 }]);
    expect(of(3, 2, 0)).toEqual([
      { start: 0, end: 7 },
      { start: 9, end: 10 },
    ]);
    expect(of(1)).toEqual([{ start: 7, end: 9 }]);
    expect(of()).toEqual([]);
  });
});
