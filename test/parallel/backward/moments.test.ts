import { describe, expect, test } from 'vitest';
import { mergeChannelMoments, type ChannelMoments } from '../../../src/parallel/backward/moments.ts';

/** Moments of one channel. */
function momentsOf(values: readonly number[]): ChannelMoments {
  const count = values.length;
  const mean = values.reduce((sum, value) => sum + value, 0) / Math.max(1, count);
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return { count, mean: Float32Array.of(mean), variance: Float32Array.of(squares / Math.max(1, count)) };
}

describe('mergeChannelMoments', () => {
  test('returns the moments of all elements, however they are divided into parts', () => {
    const parts = [[1, 3], [], [10], [-3, 5]];
    expect(mergeChannelMoments(parts.map(momentsOf))).toEqual(momentsOf(parts.flat()));
  });

  test('is accurate for a small variance around a large mean', () => {
    // The values and the parts' moments are exact in float32; the sum of squares is not.
    const parts = [0, 4, 8].map((start) => Array.from({ length: 4 }, (_, k) => 4096 + (start + k) / 8));
    expect(mergeChannelMoments(parts.map(momentsOf))).toEqual(momentsOf(parts.flat()));
  });

  test('merges the moments of each channel separately', () => {
    const [a, b] = [
      { count: 1, mean: Float32Array.of(1, 5), variance: Float32Array.of(0, 0) },
      { count: 3, mean: Float32Array.of(5, 1), variance: Float32Array.of(4, 0) },
    ];
    expect(mergeChannelMoments([a, b])).toEqual({
      count: 4,
      mean: Float32Array.of(4, 2),
      variance: Float32Array.of(6, 3),
    });
  });

  test('returns zeros if there are no elements', () => {
    expect(mergeChannelMoments([momentsOf([]), momentsOf([])])).toEqual(momentsOf([]));
  });
});
