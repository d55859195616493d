import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { equalPartOfWindow, GlobalCursor, type DataCursorPosition } from '../../../src/parallel/data/cursor.ts';
import { UsageError } from '../../../src/util/errors.ts';

function upTo(n: number): number[] {
  return Array.from({ length: n }, (_, i) => i);
}

describe('the global cursor', () => {
  const size = fc.integer({ min: 1, max: 300 });
  const batch = fc.integer({ min: 1, max: 64 });
  const world = fc.integer({ min: 1, max: 12 });

  test('has each sample once per epoch, in a different order in every epoch', () => {
    fc.assert(
      fc.property(size, batch, fc.nat(1000), (datasetSize, globalBatch, seed) => {
        const cursor = new GlobalCursor({ datasetSize, seed });
        const stepsPerEpoch = Math.ceil(datasetSize / globalBatch);
        for (const epoch of [0, 3]) {
          const windows = Array.from({ length: stepsPerEpoch }, (_, k) =>
            cursor.windowAt({ epoch, offset: k * globalBatch }, globalBatch),
          );
          expect(windows.every((window) => window.epoch === epoch)).toBe(true);
          expect(windows.slice(0, -1).every((window) => window.indices.length === globalBatch)).toBe(true);
          expect(windows.flatMap((window) => [...window.indices]).sort((a, b) => a - b)).toEqual(upTo(datasetSize));
        }
      }),
      { numRuns: 50 },
    );
    const cursor = new GlobalCursor({ datasetSize: 100, seed: 1 });
    const [first, second] = [0, 1].map((epoch) => cursor.windowAt({ epoch, offset: 0 }, 100).indices);
    expect(first).not.toEqual(second);
  });

  test('has each sample once per epoch, even if the number of ranks changes at any step', () => {
    fc.assert(
      fc.property(size, fc.array(world, { minLength: 300, maxLength: 300 }), (datasetSize, worlds) => {
        const cursor = new GlobalCursor({ datasetSize, seed: 4 });
        const seen: number[] = [];
        let position: DataCursorPosition = { epoch: 0, offset: 0 };
        for (let step = 0; position.epoch === 0; step++) {
          const worldSize = worlds[step]!;
          const window = cursor.windowAt(position, worldSize * 3);
          for (let rank = 0; rank < worldSize; rank++) seen.push(...equalPartOfWindow(window.indices, rank, worldSize));
          position = window.next;
        }
        expect(position).toEqual({ epoch: 1, offset: 0 });
        expect(seen.sort((a, b) => a - b)).toEqual(upTo(datasetSize));
      }),
      { numRuns: 50 },
    );
  });

  test('divides the window of one rank with batch size N * b among N ranks with batch size b', () => {
    fc.assert(
      fc.property(size, world, fc.integer({ min: 1, max: 16 }), fc.nat(300), (datasetSize, n, b, at) => {
        const position = { epoch: 3, offset: at % datasetSize };
        const { indices } = new GlobalCursor({ datasetSize, seed: 2 }).windowAt(position, n * b);
        const shares = Array.from({ length: n }, (_, rank) => equalPartOfWindow(indices, rank, n));
        const lengths = shares.map((share) => share.length);
        expect(Math.max(...lengths)).toBeLessThanOrEqual(b);
        expect(Math.max(...lengths) - Math.min(...lengths)).toBeLessThanOrEqual(1);
        const merged = Array.from(indices, (_, i) => shares[i % n]![Math.floor(i / n)]);
        expect(merged).toEqual([...indices]);
        expect([...equalPartOfWindow(indices, 0, 1)]).toEqual([...indices]);
      }),
    );
  });

  test('has windows that depend only on position and size', () => {
    const cursor = new GlobalCursor({ datasetSize: 50, seed: 8 });
    let position: DataCursorPosition = { epoch: 0, offset: 0 };
    for (let step = 0; step < 12; step++) {
      const window = cursor.windowAt(position, 16);
      expect(window).toEqual(new GlobalCursor({ datasetSize: 50, seed: 8 }).windowAt(position, 16));
      position = window.next;
    }
    expect(position).toEqual({ epoch: 3, offset: 0 });
  });

  test('completes an epoch in one step if a batch is larger than the data', () => {
    const window = new GlobalCursor({ datasetSize: 5, seed: 0 }).windowAt({ epoch: 2, offset: 0 }, 8);
    expect(window).toMatchObject({ epoch: 2, next: { epoch: 3, offset: 0 } });
    expect(window.indices).toHaveLength(5);
    expect([5, 6, 7].map((rank) => equalPartOfWindow(window.indices, rank, 8).length)).toEqual([0, 0, 0]);
  });

  test('returns a window as a copy that may be changed', () => {
    const cursor = new GlobalCursor({ datasetSize: 10, seed: 1 });
    const start = { epoch: 0, offset: 0 };
    const first = cursor.windowAt(start, 4).indices;
    const kept = first.slice();
    first.fill(0);
    expect(cursor.windowAt(start, 4).indices).toEqual(kept);
  });

  test('rejects positions and sizes out of range', () => {
    const cursor = new GlobalCursor({ datasetSize: 10, seed: 1 });
    expect(() => new GlobalCursor({ datasetSize: 0, seed: 1 })).toThrow(UsageError);
    expect(() => cursor.windowAt({ epoch: 0, offset: 10 }, 4)).toThrow(UsageError);
    expect(() => cursor.windowAt({ epoch: -1, offset: 0 }, 4)).toThrow(UsageError);
    expect(() => cursor.windowAt({ epoch: 0, offset: 0 }, 0)).toThrow(UsageError);
    expect(() => equalPartOfWindow(new Uint32Array(4), 2, 2)).toThrow(UsageError);
  });
});
