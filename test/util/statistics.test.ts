import { expect, test } from 'vitest';
import { mean, median, quantile } from '../../src/util/statistics.ts';

test('a quantile is the element with the nearest rank', () => {
  const twenty = Array.from({ length: 20 }, (_, i) => 20 - i);
  expect(quantile(twenty, 0.95)).toBe(19);
  expect(quantile(twenty, 1)).toBe(20);
  expect(quantile(twenty, 0)).toBe(1);
  expect(median([3, 1, 2])).toBe(2);
  expect(median([2, 1])).toBe(1);
  expect(median([])).toBe(0);
});

test('a mean is the sum divided by the number of values, and 0 for an empty list', () => {
  expect(mean([1, 2, 6])).toBe(3);
  expect(mean([])).toBe(0);
});
