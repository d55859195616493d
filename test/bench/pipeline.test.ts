import { expect, test } from 'vitest';
import { section, shareOf, transfersOf } from '../../bench/pipeline/benchmark.ts';
import { oneForwardOneBackward, timePlan } from '../../src/parallel/pipeline/schedules.ts';

test('the idle share is computed from the longest span of a rank', () => {
  const pass = { kind: 'forward', stage: 0, microBatch: 0, tick: 0 } as const;
  const ranks = [
    { start: 1000, end: 1100, passes: [{ ...pass, start: 1010, end: 1060 }] },
    { start: 1002, end: 1082, passes: [{ ...pass, stage: 1, start: 1060, end: 1080 }] },
  ];
  expect(shareOf(ranks)).toBeCloseTo(1 - 70 / 200);
});

test('transfersOf returns the travel times of those values for which a rank waits', () => {
  const plan = oneForwardOneBackward(4, 6);
  const timed = timePlan(
    plan,
    ({ kind }) => (kind === 'forward' ? 100 : 150),
    () => 7,
  );
  const transfers = transfersOf(
    timed.map((passes) => ({ passes })),
    4,
  );
  // The first forward passes of three stages, and the first backward passes of three stages, wait.
  expect(transfers.length).toBeGreaterThanOrEqual(6);
  expect(transfers.filter((ms) => ms === 7).length).toBeGreaterThanOrEqual(6);
  // A value that arrives while the rank still computes is waiting when the rank is free.
  for (const ms of transfers) expect(ms).toBeCloseTo(7);
});

test('the section has a row for each schedule and number of micro-batches', () => {
  const share = { measured: 0.45, plan: 3 / 7, withTransfer: 0.44 };
  const row = { schedule: 'gpipe', microBatches: 4, ...share, transferMs: 9, stepMs: 5700, planMs: 5600 } as const;
  expect(section([row])).toMatch(/\| gpipe +\| +4 \| +45.0 \| +42.9 \| +9 \| +44.0 \| +5.70 \| +5.60 \|/);
});
