import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { DataCursorPosition } from '../../../src/parallel/data/cursor.ts';
import { ShardCursor } from '../../../src/parallel/data/shardCursor.ts';
import { UsageError } from '../../../src/util/errors.ts';

const START: DataCursorPosition = { epoch: 0, offset: 0 };
const size = fc.integer({ min: 1, max: 200 });
const batch = fc.integer({ min: 1, max: 40 });

function upTo(n: number): number[] {
  return Array.from({ length: n }, (_, i) => i);
}

describe('the cursor over shards', () => {
  test("has each rank's samples once per epoch, at most one batch per rank in a step, and one common end of the epoch", () => {
    fc.assert(
      fc.property(fc.array(size, { minLength: 1, maxLength: 8 }), batch, fc.nat(1000), (sizes, batchSize, seed) => {
        const cursors = sizes.map((_, rank) => new ShardCursor({ sizes, rank, seed }));
        const seen = sizes.map((): number[] => []);
        let position = START;
        let done = 0;
        let steps = 0;
        while (position.epoch === 0) {
          const windows = cursors.map((cursor) => cursor.windowAt(position, batchSize));
          const counts = windows.map(({ indices }) => indices.length);
          for (const [rank, { indices }] of windows.entries()) seen[rank]!.push(...indices);
          for (const window of windows) {
            expect(window).toMatchObject({ offset: done, next: windows[0]!.next });
            expect(window.size).toBe(counts.reduce((sum, one) => sum + one, 0));
          }
          expect(Math.max(...counts)).toBeLessThanOrEqual(batchSize);
          expect(windows[0]!.size).toBeGreaterThan(0);
          // Each rank's samples are in proportion to its data, rounded to whole samples.
          for (const [rank, own] of seen.entries()) {
            const share = own.length / sizes[rank]!;
            expect(Math.abs(share - seen[0]!.length / sizes[0]!)).toBeLessThan(1 / sizes[rank]! + 1 / sizes[0]!);
          }
          done += windows[0]!.size;
          steps++;
          position = windows[0]!.next;
        }
        expect(position).toEqual({ epoch: 1, offset: 0 });
        expect(steps).toBe(cursors[0]!.partsOf(batchSize));
        for (const [rank, own] of seen.entries()) expect(own.sort((a, b) => a - b)).toEqual(upTo(sizes[rank]!));
      }),
      { numRuns: 30 },
    );
  });

  test('uses each sample of a remaining rank once, while other ranks join and leave during the epoch', () => {
    fc.assert(
      fc.property(
        size,
        batch,
        fc.array(fc.array(size, { maxLength: 4 }), { minLength: 200, maxLength: 200 }),
        (mine, batchSize, others) => {
          const seen: number[] = [];
          let position = START;
          for (let step = 0; position.epoch === 0; step++) {
            const before = others[step % others.length]!;
            // The number of this rank also differs between the worlds.
            const cursor = new ShardCursor({ sizes: [...before, mine], rank: before.length, seed: 3 });
            const window = cursor.windowAt(position, batchSize);
            expect(window.size).toBeGreaterThan(0);
            for (const rank of before.keys()) {
              const theirs = new ShardCursor({ sizes: [...before, mine], rank, seed: 3 }).windowAt(position, batchSize);
              expect(theirs.indices.length).toBeLessThanOrEqual(batchSize);
            }
            expect(window.indices.length).toBeLessThanOrEqual(batchSize);
            seen.push(...window.indices);
            position = window.next;
          }
          expect(seen.sort((a, b) => a - b)).toEqual(upTo(mine));
        },
      ),
      { numRuns: 30 },
    );
  });

  test('takes the batches of a permutation that differs in every epoch, for a single rank', () => {
    const cursor = new ShardCursor({ sizes: [100], rank: 0, seed: 1 });
    expect(cursor.windowAt(START, 10)).toMatchObject({ offset: 0, size: 10, next: { offset: 1, parts: 10 } });
    const [first, second] = [0, 1].map((epoch) => cursor.windowAt({ epoch, offset: 0 }, 100).indices);
    expect(first).not.toEqual(second);
  });

  test('does not make steps smaller after the largest shard has left', () => {
    const cursor = new ShardCursor({ sizes: [32, 30], rank: 0, seed: 1 });
    const window = cursor.windowAt({ epoch: 0, offset: 50, parts: 100 }, 8);
    expect(window.indices.length).toBe(8);
    expect(window.next).toEqual({ epoch: 0, offset: 78, parts: 100 });
  });

  test('takes at most one batch of a larger shard that has joined', () => {
    const cursor = new ShardCursor({ sizes: [64, 60_000], rank: 1, seed: 1 });
    const window = cursor.windowAt({ epoch: 0, offset: 1, parts: 2 }, 32);
    expect(window).toMatchObject({ offset: 32 + 30_000, next: { offset: 939, parts: 1876 } });
    expect(window.indices.length).toBeLessThanOrEqual(32);
  });

  test('computes the number of remaining steps for any shards', () => {
    const both = new ShardCursor({ sizes: [3000, 10], rank: 0, seed: 1 });
    expect(both.stepsLeft(START, 2, 10)).toBe(600);
    expect(both.stepsLeft({ epoch: 1, offset: 150, parts: 300 }, 2, 10)).toBe(150);
    const rest = new ShardCursor({ sizes: [100, 10], rank: 0, seed: 1 });
    expect(rest.stepsLeft({ epoch: 1, offset: 150, parts: 300 }, 2, 10)).toBe(5);
    expect(rest.stepsLeft({ epoch: 0, offset: 150, parts: 300 }, 2, 10)).toBe(15);
  });

  test('rejects a position outside of the epoch, and a rank without samples', () => {
    const cursor = new ShardCursor({ sizes: [4], rank: 0, seed: 1 });
    expect(() => cursor.windowAt({ epoch: 0, offset: 4, parts: 4 }, 1)).toThrow(UsageError);
    expect(() => cursor.windowAt({ epoch: 0, offset: 1 }, 1)).toThrow('has only 0 parts');
    expect(() => new ShardCursor({ sizes: [4, 0], rank: 0, seed: 1 })).toThrow("rank 1's samples");
  });
});
