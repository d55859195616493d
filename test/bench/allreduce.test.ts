import { expect, test } from 'vitest';
import { rowOf, scheduleOf, theoryBytes } from '../../bench/allreduce/benchmark.ts';
import { summaryOf } from '../../bench/link/benchmark.ts';

test('a row has the median time over ranks, the bytes that the busiest rank sent, and the number of wrong elements on all ranks', () => {
  const ours = [
    { ms: [10, 12], wrong: 1, bytesSent: 1500 },
    { ms: [8, 20], wrong: 2, bytesSent: 1532 },
    { ms: [10], wrong: 0, bytesSent: 1500 },
  ];
  const row = rowOf({ n: 4, bytes: 1000 }, ours, [{ ms: [9, 9, 30] }]);
  expect(row).toMatchObject({ medianMs: 10, rawMedianMs: 9, ratio: 0.9, wrong: 3, bytesSentPerRank: 1532 });
  // As in nccl-tests: bytes divided by time, times 2(n-1)/n.
  expect(row.busMBps).toBeCloseTo(0.15);
});

test('theoryBytes is 2(n-1)/n of the tensor', () => {
  expect(theoryBytes(2, 1000)).toBe(1000);
  expect(theoryBytes(4, 1000)).toBe(1500);
});

test('a schedule fits its time budget, but has at least three rounds with one all-reduce each', () => {
  expect(scheduleOf(5_000, 1)).toEqual({ ops: 1, rounds: 3 });
  const { ops, rounds } = scheduleOf(800, 30_000);
  expect(ops * rounds * 800).toBeLessThanOrEqual(30_000);
  expect(rounds).toBeGreaterThan(5);
  // With 8 ranks, in-place sums grow by a factor of 8 with each all-reduce. The largest float32 is
  // below 2^128.
  expect(8 ** scheduleOf(1, 1e9).ops * 1000).toBeLessThan(2 ** 127);
});

test('summaryOf compares the median throughput of each kind of link with that of the bare channel', () => {
  const { rows } = summaryOf({
    bareLink: [{ MBps: 10, roundTripMs: 1 }],
    workerLink: [9, 8, 30].map((MBps) => ({ MBps, roundTripMs: 2 })),
    portLink: [{ MBps: 100, roundTripMs: 1 }],
  });
  expect(rows).toEqual([
    { kind: 'bareLink', MBps: 10, ratio: 1, roundTripMs: 1 },
    { kind: 'workerLink', MBps: 9, ratio: 0.9, roundTripMs: 2 },
    { kind: 'portLink', MBps: 100, ratio: 10, roundTripMs: 1 },
  ]);
});
