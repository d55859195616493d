import { describe, expect, test } from 'vitest';
import { meanOfLargestEntries, sparseSentShare } from '../../../src/parallel/sparse/ownerRanges.ts';
import { medianNormClippingFactors } from '../../../src/parallel/sparse/normClipping.ts';
import { SPARSE_PAYLOAD_SIZE_RATIO } from '../../../src/parallel/sparse/sparsePayload.ts';
import { SparseOuterMean } from '../../../src/parallel/strategies/sparseMean.ts';
import { decodeLargestEntries, encodeLargestEntries } from '../../../src/parallel/sparse/sparsePayload.ts';
import { l2NormOf } from '../../../src/parallel/sparse/vectors.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { createRng } from '../../../src/util/rng.ts';

/** Five chunks, the last of which is not whole. */
const SIZE = 20_000;
const ENTRIES = 128;

const gradientOf = (seed: number): Float32Array => {
  const rng = createRng(seed + 1);
  return Float32Array.from({ length: SIZE }, () => rng.next() - 0.5);
};

describe('owners of ranges', () => {
  test('compute the mean of all payloads, rounded to one byte per value, with the same bits on every rank', async () => {
    const worldSize = 7;
    const means = await runWorld(worldSize, (group) =>
      meanOfLargestEntries(group, gradientOf(group.rank), 1 / worldSize, ENTRIES),
    );
    const payloads = Array.from({ length: worldSize }, (_, rank) =>
      decodeLargestEntries(encodeLargestEntries(gradientOf(rank), ENTRIES), SIZE, ENTRIES, rank),
    );
    const kept = medianNormClippingFactors(
      payloads.map((values) => ({ weight: 1 / worldSize, norm: l2NormOf([values]) })),
    );
    const exact = Float32Array.from({ length: SIZE }, (_, i) =>
      payloads.reduce((sum, values, rank) => sum + (kept[rank]! / worldSize) * values[i]!, 0),
    );
    const largest = Math.max(...exact.map(Math.abs));
    for (const mean of means) {
      expect(mean).toEqual(means[0]);
      const errors = mean.map((value, i) => Math.abs(value - exact[i]!));
      expect(Math.max(...errors)).toBeLessThanOrEqual(largest / 127 / 2 + 1e-7);
    }
  });

  test('lose nothing by rounding, or by the limit for ranks with large values', async () => {
    const weights = [0.5, 0.25, 0.25];
    const all = weights.map((_, rank) => gradientOf(rank).map((value) => 10 ** rank * value));
    const ranks = await runWorld(3, async (group) => {
      const values = all[group.rank]!.slice();
      return { mean: await meanOfLargestEntries(group, values, weights[group.rank]!, ENTRIES), left: values };
    });
    for (let i = 0; i < SIZE; i += 7) {
      const left = ranks.reduce((sum, { left: own }, rank) => sum + weights[rank]! * own[i]!, 0);
      const before = weights.reduce((sum, weight, rank) => sum + weight * all[rank]![i]!, 0);
      expect(ranks[0]!.mean[i]! + left).toBeCloseTo(before, 4);
    }
  });

  test('receive nothing from a rank without samples', async () => {
    const weights = [0, 0.5, 0.5, 0];
    const means = await runWorld(4, (group) =>
      meanOfLargestEntries(group, gradientOf(group.rank), weights[group.rank]!, ENTRIES),
    );
    expect(means[1]).toEqual(means[0]);
    expect(Math.hypot(...means[0]!)).toBeGreaterThan(0);
  });

  test('are used if they send less than an all-gather', async () => {
    expect([2, 4, 16].map((n) => sparseSentShare(n).hasOwners)).toEqual([false, false, false]);
    expect(sparseSentShare(64)).toMatchObject({ hasOwners: true });
    const worldSize = 32;
    const size = 2 * worldSize * 4096;
    const sent = await runWorld(worldSize, async (group) => {
      const rng = createRng(group.rank + 1);
      const values = Float32Array.from({ length: size }, () => rng.next() - 0.5);
      await new SparseOuterMean(size).average(group, values, 0, 1 / worldSize);
      return { bytes: group.bytesSent, norm: Math.hypot(...values.subarray(0, 4096)) };
    });
    const gathered = (worldSize - 1) * SPARSE_PAYLOAD_SIZE_RATIO * size * 4;
    expect(Math.max(...sent.map(({ bytes }) => bytes))).toBeLessThan(gathered);
    expect(new Set(sent.map(({ norm }) => norm)).size).toBe(1);
  });
});
