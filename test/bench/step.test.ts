import { expect, test } from 'vitest';
import { section } from '../../bench/step/benchmark.ts';

test('the section reports step times and the exposed share of communication by bucket size', () => {
  const ms = { total: 20, data: 0, compute: 10, readback: 1, communicate: 10, exposed: 3, update: 2 };
  const byCap = [
    { capBytes: 1024, buckets: 2, ms },
    { capBytes: null, buckets: 1, ms: { ...ms, communicate: 15, exposed: 15 } },
  ];
  const text = section({ adapter: 'a GPU', tabs: 2, rateMbit: 4, parameters: 1000, batch: 128, byCap });
  expect(text).toContain('lines of 4 Mbit/s');
  expect(text).toMatch(/\| 1 KiB +\| +2 \| +20 \| +10 \| +1 \| +10 \| +3 \| +2 \| +30 \|/);
  expect(text).toMatch(/\| whole +\| +1 \| +20 \| +10 \| +1 \| +15 \| +15 \| +2 \| +100 \|/);
  expect(text).toContain('1.50 times as long as compute');
});
