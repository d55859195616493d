import { describe, expect, test } from 'vitest';
import { crossValidate, fitCosts, predict, worstError } from '../../bench/scale/fit.ts';
import { crossovers, fastestOf, simulateGrowth } from '../../bench/scale/growth.ts';
import { section } from '../../bench/scale/benchmark.ts';
import type { Costs } from '../../src/collectives/plans/costModel.ts';

const COSTS: Costs = {
  hopMs: 2,
  hopMsPerByte: 2e-4,
  msPerByte: 0,
  combineMsPerByte: 3e-6,
  sharedMsPerFrame: 0.6,
  sharedMsPerByte: 3e-5,
  crowdMsPerByte: 3e-6,
};
const SAMPLES = [2, 3, 4, 6, 8].flatMap((n) =>
  [1, 4, 16, 64, 256, 1024].map((kib) => ({ n, bytes: 1024 * kib, ms: predict(n, 1024 * kib, COSTS) })),
);

describe('the fit of the cost model', () => {
  test('finds the constants from which the times were computed', () => {
    const fitted = fitCosts(SAMPLES, COSTS.combineMsPerByte);
    for (const name of Object.keys(COSTS) as (keyof Costs)[]) {
      expect(fitted[name], name).toBeCloseTo(COSTS[name], 9);
    }
  });

  test('finds no negative constants, and has small relative errors for noisy times', () => {
    const noisy = SAMPLES.map((sample, i) => ({ ...sample, ms: sample.ms * (i % 2 === 0 ? 1.1 : 0.9) }));
    const fitted = fitCosts(noisy, COSTS.combineMsPerByte);
    expect(Math.min(...Object.values(fitted))).toBeGreaterThanOrEqual(0);
    for (const { n, bytes, ms } of noisy) {
      expect(Math.abs(predict(n, bytes, fitted) / ms - 1), `${n} tabs, ${bytes} bytes`).toBeLessThan(0.2);
    }
  });

  test('predicts the times for each tensor size from the times for all other sizes', () => {
    expect(worstError(crossValidate(SAMPLES, COSTS.combineMsPerByte))).toBeLessThan(1e-6);
    const odd = SAMPLES.map((sample) => (sample.bytes === 65_536 ? { ...sample, ms: 2 * sample.ms } : sample));
    for (const { bytes, error } of crossValidate(odd, COSTS.combineMsPerByte)) {
      if (bytes === 65_536) expect(error).toBeCloseTo(-0.5, 2);
    }
  });
});

test('simulateGrowth simulates every network; crossovers returns the number of tabs up to which the ring is fast enough', () => {
  const growth = simulateGrowth(COSTS, [4, 24], () => {});
  expect(growth).toHaveLength(2 * 3 * 3);
  const row = growth.find(({ network, n, bytes }) => network === 'LAN' && n === 24 && bytes === 400_000)!;
  expect(fastestOf(row).ringRatio).toBeCloseTo(row.ms.ring! / fastestOf(row).ms, 9);
  const found = crossovers(growth);
  expect(found).toHaveLength(9);
  expect(found[0]).toMatchObject({ network: 'LAN', bytes: 400_000, ringPaysTo: 4 });
  const predictions = crossValidate(SAMPLES, COSTS.combineMsPerByte);
  const result = {
    costs: COSTS,
    samples: SAMPLES,
    predictions,
    worstError: 0.1,
    withinFifth: 1,
    growth,
    crossovers: found,
  };
  expect(section(result)).toContain('| LAN, 4 MB: ms | ring | two-level |');
});
