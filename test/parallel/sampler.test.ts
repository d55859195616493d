import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  dealWindow,
  DistributedSampler,
  GlobalCursor,
  positionOfStep,
  sampleWindow,
  type CursorPosition,
} from '../../src/parallel/sampler.ts';
import { UsageError } from '../../src/util/errors.ts';
import { permutation } from '../../src/util/rng.ts';

/** The indices of each rank. */
function sharesOf(size: number, numReplicas: number, dropLast = false): number[][] {
  return Array.from({ length: numReplicas }, (_, rank) => [
    ...new DistributedSampler(size, { numReplicas, rank, shuffle: false, dropLast }),
  ]);
}

function upTo(n: number): number[] {
  return Array.from({ length: n }, (_, i) => i);
}

describe('DistributedSampler', () => {
  // Row 44 of conformance.md; the same lists come out of torch 2.13.
  test('deals as torch does', () => {
    expect(sharesOf(10, 4)).toEqual([
      [0, 4, 8],
      [1, 5, 9],
      [2, 6, 0],
      [3, 7, 1],
    ]);
    expect(sharesOf(10, 4, true)).toEqual([
      [0, 4],
      [1, 5],
      [2, 6],
      [3, 7],
    ]);
    expect(sharesOf(11, 4)[3]).toEqual([3, 7, 0]);
    expect(sharesOf(3, 8)).toEqual([[0], [1], [2], [0], [1], [2], [0], [1]]);
    expect(sharesOf(1, 4)).toEqual([[0], [0], [0], [0]]);
    expect(sharesOf(3, 4, true)).toEqual([[], [], [], []]);
    expect(sharesOf(105, 4).map((share) => share.length)).toEqual([27, 27, 27, 27]);
    expect(sharesOf(105, 4).map((share) => share.at(-1))).toEqual([104, 0, 1, 2]);
    expect(sharesOf(8, 4, true)).toEqual(sharesOf(8, 4));
    expect(sharesOf(0, 3)).toEqual([[], [], []]);
  });

  test('length is a count, and never -0', () => {
    expect(new DistributedSampler(3, { numReplicas: 4, rank: 0, dropLast: true }).length).toBe(0);
    expect(new DistributedSampler(10, { numReplicas: 4, rank: 3 })).toHaveLength(3);
  });

  test('shuffles by seed + epoch, and again the same', () => {
    const sampler = new DistributedSampler(10, { numReplicas: 1, rank: 0, seed: 5 });
    expect(sampler.indices()).toEqual(permutation(10, 5));
    sampler.setEpoch(2);
    expect([...sampler]).toEqual([...permutation(10, 7)]);
    expect([...sampler]).toEqual([...permutation(10, 7)]);
  });

  test('pads from the head of the shuffled list', () => {
    const order = permutation(10, 0);
    const share = [...new DistributedSampler(10, { numReplicas: 4, rank: 3 })];
    expect(share).toEqual([order[3], order[7], order[1]]);
  });

  test('the ranks together cover the data, whatever the sizes', () => {
    fc.assert(
      fc.property(fc.nat(200), fc.integer({ min: 1, max: 20 }), fc.boolean(), (size, numReplicas, dropLast) => {
        const all = Array.from({ length: numReplicas }, (_, rank) => [
          ...new DistributedSampler(size, { numReplicas, rank, dropLast, seed: 9 }),
        ]);
        expect(new Set(all.map((share) => share.length)).size).toBe(1);
        const seen = all.flat();
        const whole = dropLast ? size - (size % numReplicas) : size;
        expect(new Set(seen).size).toBe(whole);
        expect(seen.length).toBe(dropLast ? whole : Math.ceil(size / numReplicas) * numReplicas);
      }),
    );
  });

  test.each([-1, 4, 0.5, NaN])('refuses rank %s of 4', (rank) => {
    expect(() => new DistributedSampler(10, { numReplicas: 4, rank })).toThrow(UsageError);
  });

  test('refuses sizes that are no counts', () => {
    expect(() => new DistributedSampler(-1, { numReplicas: 1, rank: 0 })).toThrow(UsageError);
    expect(() => new DistributedSampler(1, { numReplicas: 0, rank: 0 })).toThrow(UsageError);
  });
});

describe('the global cursor', () => {
  const size = fc.integer({ min: 1, max: 300 });
  const batch = fc.integer({ min: 1, max: 64 });
  const world = fc.integer({ min: 1, max: 12 });

  test('a pass holds each sample once, in every pass another order', () => {
    fc.assert(
      fc.property(size, batch, fc.nat(1000), (datasetSize, globalBatch, seed) => {
        const { stepsPerEpoch } = sampleWindow({ datasetSize, globalBatch, step: 0, seed });
        for (const dataEpoch of [0, 3]) {
          const windows = Array.from({ length: stepsPerEpoch }, (_, k) =>
            sampleWindow({ datasetSize, globalBatch, step: dataEpoch * stepsPerEpoch + k, seed }),
          );
          expect(windows.every((window) => window.dataEpoch === dataEpoch)).toBe(true);
          expect(windows.slice(0, -1).every((window) => window.indices.length === globalBatch)).toBe(true);
          expect(windows.flatMap((window) => [...window.indices]).sort((a, b) => a - b)).toEqual(upTo(datasetSize));
        }
      }),
      { numRuns: 50 },
    );
    const cursor = new GlobalCursor({ datasetSize: 100, seed: 1 });
    expect(cursor.window(0, 100).indices).not.toEqual(cursor.window(1, 100).indices);
  });

  test('a pass holds each sample once though the number of ranks changes at any step', () => {
    fc.assert(
      fc.property(size, fc.array(world, { minLength: 300, maxLength: 300 }), (datasetSize, worlds) => {
        const cursor = new GlobalCursor({ datasetSize, seed: 4 });
        const seen: number[] = [];
        let position: CursorPosition = { dataEpoch: 0, offset: 0 };
        for (let step = 0; position.dataEpoch === 0; step++) {
          const worldSize = worlds[step]!;
          const window = cursor.windowAt(position, worldSize * 3);
          for (let rank = 0; rank < worldSize; rank++) seen.push(...dealWindow(window.indices, rank, worldSize));
          position = window.next;
        }
        expect(position).toEqual({ dataEpoch: 1, offset: 0 });
        expect(seen.sort((a, b) => a - b)).toEqual(upTo(datasetSize));
      }),
      { numRuns: 50 },
    );
  });

  test('N ranks with batch b see the window of one rank with batch N * b', () => {
    fc.assert(
      fc.property(size, world, fc.integer({ min: 1, max: 16 }), fc.nat(40), (datasetSize, n, b, step) => {
        const { indices } = sampleWindow({ datasetSize, globalBatch: n * b, step, seed: 2 });
        const shares = Array.from({ length: n }, (_, rank) => dealWindow(indices, rank, n));
        const lengths = shares.map((share) => share.length);
        expect(Math.max(...lengths)).toBeLessThanOrEqual(b);
        expect(Math.max(...lengths) - Math.min(...lengths)).toBeLessThanOrEqual(1);
        const merged = Array.from(indices, (_, i) => shares[i % n]![Math.floor(i / n)]);
        expect(merged).toEqual([...indices]);
        expect([...dealWindow(indices, 0, 1)]).toEqual([...indices]);
      }),
    );
  });

  test('stepping from window to window and asking by step are the same', () => {
    const cursor = new GlobalCursor({ datasetSize: 50, seed: 8 });
    let position: CursorPosition = { dataEpoch: 0, offset: 0 };
    for (let step = 0; step < 12; step++) {
      const window = cursor.windowAt(position, 16);
      expect(window).toEqual(cursor.window(step, 16));
      expect(window).toEqual(sampleWindow({ datasetSize: 50, globalBatch: 16, step, seed: 8 }));
      expect(positionOfStep(step, 50, 16)).toEqual(position);
      position = window.next;
    }
    expect(position).toEqual({ dataEpoch: 3, offset: 0 });
  });

  test('a batch larger than the data takes the pass in one step', () => {
    const window = sampleWindow({ datasetSize: 5, globalBatch: 8, step: 2, seed: 0 });
    expect(window).toMatchObject({ dataEpoch: 2, stepsPerEpoch: 1, next: { dataEpoch: 3, offset: 0 } });
    expect(window.indices).toHaveLength(5);
    expect([5, 6, 7].map((rank) => dealWindow(window.indices, rank, 8).length)).toEqual([0, 0, 0]);
  });

  test('a window is a copy: writing to it does not spoil the pass', () => {
    const cursor = new GlobalCursor({ datasetSize: 10, seed: 1 });
    const first = cursor.window(0, 4).indices;
    const kept = first.slice();
    first.fill(0);
    expect(cursor.window(0, 4).indices).toEqual(kept);
  });

  test('refuses what is outside', () => {
    const cursor = new GlobalCursor({ datasetSize: 10, seed: 1 });
    expect(() => new GlobalCursor({ datasetSize: 0, seed: 1 })).toThrow(UsageError);
    expect(() => cursor.windowAt({ dataEpoch: 0, offset: 10 }, 4)).toThrow(UsageError);
    expect(() => cursor.windowAt({ dataEpoch: -1, offset: 0 }, 4)).toThrow(UsageError);
    expect(() => cursor.window(0, 0)).toThrow(UsageError);
    expect(() => cursor.window(-1, 4)).toThrow(UsageError);
    expect(() => dealWindow(new Uint32Array(4), 2, 2)).toThrow(UsageError);
  });
});
