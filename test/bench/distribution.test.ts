import { expect, test } from 'vitest';
import { ringTensor, rowOf, section } from '../../bench/distribution.ts';
import { theoryBytes } from '../../bench/allreduce.ts';

const ours = (ms: number[], hashes = ms.map(() => 'a')) =>
  ms.map((one, rank) => ({ ms: one, hash: hashes[rank]!, bytesSent: rank < 2 ? 1010 : 0 }));

test('a row has the median of the slowest rank’s times over all rounds, and the number of wrong files', () => {
  const row = rowOf(
    { n: 3, bytes: 1000 },
    {
      ours: [ours([8, 10, 9]), ours([2, 20, 3], ['a', 'b', 'a']), ours([10, 10, 10])],
      ring: [[{ ms: [9] }, { ms: [7] }]],
      chain: [[{ ms: 5 }, { ms: 8 }]],
    },
  );
  expect(row).toMatchObject({ medianMs: 10, ringMs: 9, chainMs: 8, ratio: 0.9, chainRatio: 0.8, wrong: 1 });
  expect(row.MBps).toBeCloseTo(0.1);
  expect(row.sentOverTheory).toBeCloseTo(1.01);
  expect(section(row)).toContain('| 1000 ');
});

test('the tensor of the bare ring is sized so that every rank sends as many bytes as the file has', () => {
  for (const n of [2, 4, 8]) expect(theoryBytes(n, ringTensor(n, 20_000_000))).toBeCloseTo(20_000_000, -2);
});
