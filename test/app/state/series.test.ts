import { describe, expect, test } from 'vitest';
import {
  appendToCurve,
  emptyCurveSeries,
  smoothCurve,
  truncateCurve,
  type CurveSeries,
} from '../../../src/app/state/series.ts';

function grow(count: number, max: number): CurveSeries {
  let series = emptyCurveSeries;
  for (let step = 0; step < count; step++) series = appendToCurve(series, { step, at: step * 10, value: step }, max);
  return series;
}

describe('appendToCurve', () => {
  test('stores every sample while there is space', () => {
    expect(grow(5, 8).points.map((point) => point.value)).toEqual([0, 1, 2, 3, 4]);
  });

  test('merges neighbouring samples into means, so that the number of points stays limited', () => {
    const series = grow(1000, 16);
    expect(series.points.length).toBeLessThan(16);
    expect(series.stride).toBe(64);
    // Samples 0 .. 63 have the mean 31.5. The point has step and time of sample 63.
    expect(series.points[0]).toEqual({ step: 63, at: 630, value: 31.5 });
  });

  test('replaces the sample of a repeated step, and removes the samples of later steps', () => {
    const series = appendToCurve(grow(10, 64), { step: 4, at: 1, value: 40 }, 64);
    expect(series.points.map((point) => point.step)).toEqual([0, 1, 2, 3, 4]);
    expect(series.points.at(-1)!.value).toBe(40);
  });
});

test('truncateCurve removes exactly the samples from the given step on', () => {
  const series = grow(10, 64);
  expect(truncateCurve(series, 10)).toBe(series);
  expect(truncateCurve(series, 3).points).toHaveLength(3);
});

describe('smoothCurve', () => {
  test('does not change values if the weight is 0 or all values are equal', () => {
    expect(smoothCurve([1, 5, 2], 0)).toEqual([1, 5, 2]);
    for (const value of smoothCurve([3, 3, 3, 3], 0.9)) expect(value).toBeCloseTo(3);
  });

  test('does not lag behind a straight line', () => {
    const line = Array.from({ length: 101 }, (_, i) => i);
    expect(smoothCurve(line, 0.8)[50]).toBeCloseTo(50);
  });

  test('skips NaN and infinity', () => {
    expect(smoothCurve([1, Number.NaN, 1], 0.5).every((value) => value === 1)).toBe(true);
  });
});
