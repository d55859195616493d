import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { DistributedSampler } from '../../../src/parallel/data/distributedSampler.ts';
import { UsageError } from '../../../src/util/errors.ts';
import { seededPermutation } from '../../../src/util/rng.ts';

/** The indices of each rank. */
function sharesOf(size: number, numReplicas: number, dropLast = false): number[][] {
  return Array.from({ length: numReplicas }, (_, rank) => [
    ...new DistributedSampler(size, { numReplicas, rank, shuffle: false, dropLast }),
  ]);
}

describe('DistributedSampler', () => {
  // This is case 44 of docs/CONFORMANCE.md. torch 2.13 computes the same lists.
  test('assigns the indices that torch assigns', () => {
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

  test('has a length that is a whole number and never -0', () => {
    expect(new DistributedSampler(3, { numReplicas: 4, rank: 0, dropLast: true }).length).toBe(0);
    expect(new DistributedSampler(10, { numReplicas: 4, rank: 3 })).toHaveLength(3);
  });

  test('shuffles by seed + epoch, always in the same way', () => {
    const sampler = new DistributedSampler(10, { numReplicas: 1, rank: 0, seed: 5 });
    expect(sampler.indices()).toEqual(seededPermutation(10, 5));
    sampler.setEpoch(2);
    expect([...sampler]).toEqual([...seededPermutation(10, 7)]);
    expect([...sampler]).toEqual([...seededPermutation(10, 7)]);
  });

  test('pads from the start of the shuffled list', () => {
    const order = seededPermutation(10, 0);
    const share = [...new DistributedSampler(10, { numReplicas: 4, rank: 3 })];
    expect(share).toEqual([order[3], order[7], order[1]]);
  });

  test('gives all ranks equally many indices; together these are all data or, with dropLast, as many as possible', () => {
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

  test.each([-1, 4, 0.5, NaN])('rejects rank %s of 4', (rank) => {
    expect(() => new DistributedSampler(10, { numReplicas: 4, rank })).toThrow(UsageError);
  });

  test('rejects sizes that are not whole numbers', () => {
    expect(() => new DistributedSampler(-1, { numReplicas: 1, rank: 0 })).toThrow(UsageError);
    expect(() => new DistributedSampler(1, { numReplicas: 0, rank: 0 })).toThrow(UsageError);
  });
});
