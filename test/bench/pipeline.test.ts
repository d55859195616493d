import { expect, test } from 'vitest';
import { section, shareOf } from '../../bench/pipeline/benchmark.ts';

test('the idle share is computed from the longest span of a rank', () => {
  const pass = { kind: 'forward', stage: 0, microBatch: 0, tick: 0 } as const;
  const ranks = [
    { start: 1000, end: 1100, passes: [{ ...pass, start: 1010, end: 1060 }] },
    { start: 1002, end: 1082, passes: [{ ...pass, stage: 1, start: 1060, end: 1080 }] },
  ];
  expect(shareOf(ranks)).toBeCloseTo(1 - 70 / 200);
});

test('the section has a row for each schedule and number of micro-batches', () => {
  const row = { schedule: 'gpipe', microBatches: 4, measured: 0.45, plan: 3 / 7, stepMs: 5700, planMs: 5600 } as const;
  expect(section({ stages: 4, rows: [row] })).toMatch(/\| gpipe +\| +4 \| +45.0 \| +42.9 \| +5.70 \| +5.60 \|/);
});
