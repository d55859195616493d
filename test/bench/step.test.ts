import { expect, test } from 'vitest';
import { section, resultsByCap, leastExposed } from '../../bench/step/benchmark.ts';

const step = (total: number, communicate = 0, exposed = 0, readyMs: number[] = []) => ({
  ms: { total, data: 0, communicate, exposed, compute: total / 2, readback: 1, update: 2 },
  readyMs,
});

const TAKEN = [
  {
    steps: [step(40, 10, 8, [9, 40]), step(20, 10, 2, [10, 16]), step(20, 12, 3, [11, 12])],
    bucketBytes: [3000, 1012],
  },
  { steps: [step(22, 5, 5, [12])], bucketBytes: [4012] },
];

test('the section reports median step times and the exposed share of communication by bucket size', () => {
  const byCap = resultsByCap([1024, null], TAKEN, 8.024);
  expect(byCap).toMatchObject([
    {
      capBytes: 1024,
      exposedShare: 0.3,
      ms: { total: 20, communicate: 10, exposed: 3 },
      leastShare: expect.closeTo(2.024 / 8.024),
    },
    { capBytes: null, exposedShare: 1, leastShare: 1, buckets: 1 },
  ]);
  const line = { rateMbit: 4, ms: 8.024 };
  const text = section({ adapter: 'a GPU', tabs: 2, line, parameters: 1000, batch: 128, byCap });
  expect(text).toContain('lines of 4 Mbit/s');
  expect(text).toContain('| 1 KiB      |       2 |');
  expect(text).toContain('| whole      |       1 |');
});

test('leastExposed on a slow line, which is always busy, counts everything that is not sent when the last bucket is ready', () => {
  expect(leastExposed([4, 6, 8, 10], [1, 1, 1, 1], 12)).toBe(6 / 12);
});

test('leastExposed on a fast line counts only the last bucket, as a share of a time that includes the waits between buckets', () => {
  expect(leastExposed([4, 6, 8, 10], [1, 1, 1, 1], 4)).toBe(1 / 7);
});
