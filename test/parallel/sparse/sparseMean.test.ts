import { describe, expect, test } from 'vitest';
import { SparseMean } from '../../../src/parallel/sparse/sparseMean.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { createRng } from '../../../src/util/rng.ts';

const SIZE = 5000;

const gradientOf = (rank: number): Float32Array => {
  const rng = createRng(rank + 1);
  return Float32Array.from({ length: SIZE }, () => rng.next() - 0.5);
};

const whole = { start: 0, end: SIZE };

describe('a sparse mean', () => {
  test('has the same bits on every rank', async () => {
    const means = await runWorld(3, async (group) => {
      const mean = new SparseMean(SIZE);
      const values = gradientOf(group.rank);
      await mean.average(group, values, 0, [0.5, 0.25, 0.25][group.rank]!);
      return Array.from(values);
    });
    expect(means[1]).toEqual(means[0]);
    expect(means[2]).toEqual(means[0]);
  });

  test('sends in later exchanges what was not among the largest entries', async () => {
    const rounds = 60;
    const sums = await runWorld(1, async (group) => {
      const mean = new SparseMean(SIZE, 400);
      const sum = new Float32Array(SIZE);
      for (let round = 0; round < rounds; round++) {
        const values = new Float32Array(SIZE).fill(1);
        await mean.average(group, values, 0, 1);
        mean.commit(whole);
        for (let i = 0; i < SIZE; i++) sum[i]! += values[i]!;
      }
      return sum;
    });
    // Each element is sent about once in ten rounds, and the accumulator has then grown by the
    // decay: 1 + 0.9 + 0.9^2 + ...
    for (const sum of sums[0]!) expect(sum).toBeGreaterThan(rounds / 2);
  });

  test('repeats an exchange that was not committed with the same values', async () => {
    const [first, second] = (
      await runWorld(1, async (group) => {
        const mean = new SparseMean(SIZE);
        const values = [gradientOf(0), gradientOf(0)];
        for (const gradient of values) await mean.average(group, gradient, 0, 1);
        return values;
      })
    )[0]!;
    expect(second).toEqual(first);
  });

  test('ignores a rank without samples, which keeps its accumulator', async () => {
    const means = await runWorld(2, async (group) => {
      const mean = new SparseMean(SIZE);
      const seen: Float32Array[] = [];
      for (const weight of group.rank === 0 ? [1, 0.5] : [0, 0.5]) {
        const values = gradientOf(group.rank);
        await mean.average(group, values, 0, weight);
        mean.commit(whole);
        seen.push(values);
      }
      return seen;
    });
    const alone = await runWorld(1, async (group) => {
      const values = gradientOf(0);
      await new SparseMean(SIZE).average(group, values, 0, 1);
      return values;
    });
    expect(means[0]![0]).toEqual(alone[0]);
    expect(means[1]![1]).toEqual(means[0]![1]);
  });

  test('limits a rank that has learned far more than the others', async () => {
    const norms = await runWorld(3, async (group) => {
      const values = gradientOf(group.rank).map((value) => (group.rank === 2 ? 1000 * value : value));
      await new SparseMean(SIZE).average(group, values, 0, 1 / 3);
      return Math.hypot(...values);
    });
    const alone = await runWorld(1, async (group) => {
      const values = gradientOf(0);
      await new SparseMean(SIZE).average(group, values, 0, 1);
      return Math.hypot(...values);
    });
    expect(norms[0]).toBeLessThan(alone[0]! * 1.1);
  });
});
