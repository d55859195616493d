import { describe, expect, test } from 'vitest';
import { crossValidate, fitCosts, predict } from '../../bench/scale/fit.ts';
import { fastestOf, simulateGrowth } from '../../bench/scale/growth.ts';
import { section } from '../../bench/scale/benchmark.ts';
import type { NetworkCosts } from '../../src/collectives/plans/costModel.ts';

const COSTS: NetworkCosts = {
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
    for (const name of Object.keys(COSTS) as (keyof NetworkCosts)[]) {
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
    const errors = crossValidate(SAMPLES, COSTS.combineMsPerByte).map(({ error }) => Math.abs(error));
    expect(Math.max(...errors)).toBeLessThan(1e-6);
    const odd = SAMPLES.map((sample) => (sample.bytes === 65_536 ? { ...sample, ms: 2 * sample.ms } : sample));
    for (const { bytes, error } of crossValidate(odd, COSTS.combineMsPerByte)) {
      if (bytes === 65_536) expect(error).toBeCloseTo(-0.5, 2);
    }
  });
});

test('simulateGrowth simulates every algorithm on every network, and the section has a table for each network', () => {
  const growth = simulateGrowth(COSTS, [8, 24], () => {});
  expect(growth.map(({ network, n }) => `${network} ${n}`)).toEqual(
    [8, 24].flatMap((n) => ['LAN', 'campus Wi-Fi', 'home uplinks'].map((network) => `${network} ${n}`)),
  );
  for (const row of growth) expect(row.ms[fastestOf(row)]).toBe(Math.min(...Object.values(row.ms)));
  const text = section({ costs: COSTS, samples: SAMPLES, worstError: 0.1, withinFifth: 1, growth });
  expect(text).toContain('| LAN, 4 MB: ms | ring | two-level |');
});
