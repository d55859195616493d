import { describe, expect, test } from 'vitest';
import { SparseOuterMean } from '../../../src/parallel/strategies/sparseMean.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { createRng } from '../../../src/util/rng.ts';

const SIZE = 5000;

const gradientOf = (rank: number): Float32Array => {
  const rng = createRng(rank + 1);
  return Float32Array.from({ length: SIZE }, () => rng.next() - 0.5);
};

describe('a sparse mean', () => {
  test('has the same bits on every rank', async () => {
    const means = await runWorld(3, async (group) => {
      const mean = new SparseOuterMean(SIZE);
      const values = gradientOf(group.rank);
      await mean.average(group, values, 0, [0.5, 0.25, 0.25][group.rank]!);
      return Array.from(values);
    });
    expect(means[1]).toEqual(means[0]);
    expect(means[2]).toEqual(means[0]);
  });

  test('sends the remaining entries in later exchanges, and loses nothing', async () => {
    const rounds = 60;
    const [result] = await runWorld(1, async (group) => {
      const mean = new SparseOuterMean(SIZE, 400);
      const sum = new Float32Array(SIZE);
      for (let round = 0; round < rounds; round++) {
        const values = mean.unsent.map((unsent) => unsent + 1);
        await mean.average(group, values, 0, 1);
        for (let i = 0; i < SIZE; i++) sum[i]! += values[i]!;
      }
      return { sum, unsent: mean.unsent };
    });
    for (const [i, sum] of result!.sum.entries()) {
      expect(sum).toBeGreaterThan(rounds / 2);
      expect(sum + result!.unsent[i]!).toBeCloseTo(rounds, 3);
    }
  });

  test('ignores a rank without samples, and this rank sends its values later', async () => {
    const ranks = await runWorld(2, async (group) => {
      const mean = new SparseOuterMean(SIZE);
      const values = gradientOf(group.rank);
      await mean.average(group, values, 0, [1, 0][group.rank]!);
      const unsent = mean.unsent.slice();
      const later = unsent.slice();
      await mean.average(group, later, 0, 0.5);
      return { mean: values, unsent, later };
    });
    const [alone] = await runWorld(1, async (group) => {
      const values = gradientOf(0);
      await new SparseOuterMean(SIZE).average(group, values, 0, 1);
      return values;
    });
    expect(ranks.map(({ mean }) => mean)).toEqual([alone, alone]);
    expect(ranks[1]!.unsent).toEqual(gradientOf(1));
    expect(ranks[1]!.later).toEqual(ranks[0]!.later);
  });

  test('limits a rank whose values are far larger than those of others', async () => {
    const norms = await runWorld(3, async (group) => {
      const values = gradientOf(group.rank).map((value) => (group.rank === 2 ? 1000 * value : value));
      await new SparseOuterMean(SIZE).average(group, values, 0, 1 / 3);
      return Math.hypot(...values);
    });
    const alone = await runWorld(1, async (group) => {
      const values = gradientOf(0);
      await new SparseOuterMean(SIZE).average(group, values, 0, 1);
      return Math.hypot(...values);
    });
    expect(norms[0]).toBeLessThan(alone[0]! * 1.1);
  });

  test('does not limit a rank with most samples because of a rank with few, and loses nothing', async () => {
    const weights = [0.9, 0.1];
    const all = [gradientOf(0), gradientOf(1).map((value) => value / 20)];
    const ranks = await runWorld(2, async (group) => {
      const mean = new SparseOuterMean(SIZE);
      const values = all[group.rank]!.slice();
      await mean.average(group, values, 0, weights[group.rank]!);
      return { mean: values, unsent: mean.unsent };
    });
    const alone = all[0]!.slice();
    await runWorld(1, (group) => new SparseOuterMean(SIZE).average(group, alone, 0, 1));
    expect(Math.hypot(...ranks[0]!.mean)).toBeGreaterThan(0.8 * Math.hypot(...alone));
    for (let i = 0; i < SIZE; i += 7) {
      const left = ranks.reduce((sum, { unsent }, rank) => sum + weights[rank]! * unsent[i]!, 0);
      const before = weights.reduce((sum, weight, rank) => sum + weight * all[rank]![i]!, 0);
      expect(ranks[0]!.mean[i]! + left).toBeCloseTo(before, 4);
    }
  });

  test('ignores values that are not finite, and drops them', async () => {
    const ranks = await runWorld(2, async (group) => {
      const mean = new SparseOuterMean(SIZE);
      const values = gradientOf(group.rank);
      if (group.rank === 1) values.set([NaN, Infinity, -Infinity]);
      await mean.average(group, values, 0, 0.5);
      return { mean: values, unsent: mean.unsent };
    });
    expect(ranks[1]!.mean).toEqual(ranks[0]!.mean);
    expect(ranks.every(({ mean, unsent }) => [...mean, ...unsent].every(Number.isFinite))).toBe(true);
    expect(Array.from(ranks[1]!.unsent.subarray(0, 3))).toEqual([0, 0, 0]);
  });
});
