import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { chunkRange, ringStepCount, ringTransferFrom, ringTransfersAt } from '../../src/collectives/plans/ringPlan.ts';

const worldSize = fc.integer({ min: 1, max: 64 });

describe('the ring plan', () => {
  test('has 2(n-1) steps; in each of these, every rank sends to its right and receives from its left neighbour', () => {
    fc.assert(
      fc.property(worldSize, (n) => {
        expect(ringStepCount(n)).toBe(2 * (n - 1));
        for (let step = 0; step < ringStepCount(n); step++) {
          const transfers = ringTransfersAt(n, step);
          expect(new Set(transfers.map(({ to }) => to)).size).toBe(n);
          expect(new Set(transfers.map(({ chunk }) => chunk)).size).toBe(n);
          expect(transfers.every(({ from, to }) => to === (from + 1) % n)).toBe(true);
        }
      }),
      { numRuns: 30 },
    );
  });

  test('adds each rank exactly once to the sum of each chunk, and then copies every sum to every rank', () => {
    fc.assert(
      fc.property(worldSize, (n) => {
        // held[rank][chunk] lists the ranks whose parts are in this rank's copy of the chunk, in
        // order of summation.
        const held = Array.from({ length: n }, (_, rank) => Array.from({ length: n }, () => [rank]));
        for (let step = 0; step < ringStepCount(n); step++) {
          const sent = ringTransfersAt(n, step).map((t) => ({ ...t, parts: [...held[t.from]![t.chunk]!] }));
          for (const { to, chunk, phase, parts } of sent) {
            const own = held[to]![chunk]!;
            held[to]![chunk] = phase === 'reduce-scatter' ? [...parts, ...own] : parts;
          }
        }
        for (let chunk = 0; chunk < n; chunk++) {
          const order = held[0]![chunk]!;
          expect([...order].sort((a, b) => a - b)).toEqual(Array.from({ length: n }, (_, i) => i));
          // All ranks have the same order of summation, so their replicas are equal bit for bit.
          expect(held.map((row) => row[chunk])).toEqual(Array(n).fill(order));
        }
      }),
      { numRuns: 30 },
    );
  });

  test('has the sum of chunk r on rank r after the reduce-scatter', () => {
    for (let n = 2; n <= 64; n++) {
      const ranks = Array.from({ length: n }, (_, rank) => rank);
      expect(ranks.map((rank) => ringTransferFrom(n, n - 2, (rank + n - 1) % n))).toMatchObject(
        ranks.map((chunk) => ({ phase: 'reduce-scatter', chunk })),
      );
      expect(ranks.map((rank) => ringTransferFrom(n, n - 1, rank))).toMatchObject(
        ranks.map((chunk) => ({ phase: 'all-gather', hop: 0, chunk })),
      );
    }
  });

  test('divides a tensor into chunks that cover the tensor and differ by at most one element in size', () => {
    fc.assert(
      fc.property(worldSize, fc.integer({ min: 0, max: 100_000 }), (n, count) => {
        const ranges = Array.from({ length: n }, (_, chunk) => chunkRange(count, n, chunk));
        const sizes = ranges.map(({ start, end }) => end - start);
        expect(ranges[0]!.start).toBe(0);
        expect(ranges.at(-1)!.end).toBe(count);
        for (let i = 1; i < n; i++) expect(ranges[i]!.start).toBe(ranges[i - 1]!.end);
        expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1);
      }),
    );
  });
});
