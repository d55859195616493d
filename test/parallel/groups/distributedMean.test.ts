import { describe, expect, test } from 'vitest';
import { DistributedMean } from '../../../src/parallel/groups/distributedMean.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { UsageError } from '../../../src/util/errors.ts';

describe('DistributedMean', () => {
  test.each([1, 2, 3, 5])('weights every value equally, however many values each of %i ranks has', async (n) => {
    const results = await runWorld(n, (group) => {
      const mean = new DistributedMean();
      // Rank r adds r values of r: the mean of 1, 2, 2, 3, 3, 3, ...
      for (let i = 0; i < group.rank; i++) mean.add(group.rank);
      mean.add(0);
      return mean.reduce(group);
    });
    const ranks = Array.from({ length: n }, (_, rank) => rank);
    const sum = ranks.reduce((total, rank) => total + rank * rank, 0);
    const count = ranks.reduce((total, rank) => total + rank + 1, 0);
    expect(results).toEqual(ranks.map(() => sum / count));
  });

  test('uses given weights, and ignores values with weight 0', async () => {
    const results = await runWorld(2, (group) => {
      const mean = new DistributedMean();
      if (group.rank === 0) mean.add(10, 3);
      else mean.add(2);
      mean.add(NaN, 0);
      return mean.reduce(group);
    });
    expect(results).toEqual([8, 8]);
  });

  test('is NaN on every rank if no value was added, or if one value is NaN', async () => {
    expect(await runWorld(3, (group) => new DistributedMean().reduce(group))).toEqual([NaN, NaN, NaN]);
    const results = await runWorld(2, (group) => {
      const mean = new DistributedMean();
      mean.add(group.rank === 1 ? NaN : 1);
      return mean.reduce(group);
    });
    expect(results).toEqual([NaN, NaN]);
  });

  test('keeps values until it is reset', async () => {
    await runWorld(2, async (group) => {
      const mean = new DistributedMean();
      mean.add(1);
      expect(await mean.reduce(group)).toBe(1);
      mean.add(4);
      expect(await mean.reduce(group)).toBe(2.5);
      mean.reset();
      expect(await mean.reduce(group)).toBeNaN();
      mean.add(7);
      expect(await mean.reduce(group)).toBe(7);
    });
  });

  test.each([-1, NaN, Infinity])('rejects weight %s', (weight) => {
    expect(() => new DistributedMean().add(1, weight)).toThrow(UsageError);
  });
});
