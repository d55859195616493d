import fc from 'fast-check';
import { expect, test } from 'vitest';
import { distributeFiles, type DistributedFileSlices } from '../../../src/parallel/data/distributeFiles.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { systemClock } from '../../../src/util/clock.ts';

/** Slices of one byte each: the number of the slice. */
class TinySlices implements DistributedFileSlices {
  readonly digests = 'known';
  readonly held: Set<number>;
  readonly count: number;
  /** Slices in the order of their arrival. */
  readonly arrived: number[] = [];

  constructor(count: number, held: Iterable<number>) {
    this.count = count;
    this.held = new Set(held);
  }

  get heldBytes(): number {
    return this.held.size;
  }

  bytesOf(): number {
    return 1;
  }

  has(slice: number): boolean {
    return this.held.has(slice);
  }

  setDigests(): void {}

  put(slice: number, bytes: Uint8Array<ArrayBuffer>): boolean {
    if (bytes[0] !== slice) return false;
    this.held.add(slice);
    this.arrived.push(slice);
    return true;
  }

  read(slice: number): Promise<Uint8Array<ArrayBuffer>> {
    return Promise.resolve(Uint8Array.of(slice));
  }
}

const distribute = (
  ranks: readonly TinySlices[],
  options: { order: readonly number[]; ahead?: number; allowsMissing?: boolean },
): Promise<(readonly number[])[]> =>
  runWorld(ranks.length, (group) =>
    distributeFiles(group, ranks[group.rank]!, { clock: systemClock, onprogress: () => {}, ...options }),
  );

const worlds = fc.integer({ min: 1, max: 12 }).chain((count) =>
  fc.record({
    count: fc.constant(count),
    order: fc.shuffledSubarray(Array.from({ length: count }, (_, slice) => slice)),
    ahead: fc.integer({ min: 1, max: 4 }),
    held: fc.array(fc.uniqueArray(fc.nat(count - 1)), { minLength: 1, maxLength: 5 }),
  }),
);

test('slices reach all ranks by priority, whatever the priorities are and whichever ranks have them', async () => {
  await fc.assert(
    fc.asyncProperty(worlds, async ({ count, order, ahead, held }) => {
      const ranks = held.map((own) => new TinySlices(count, own));
      const all = Array.from({ length: count }, (_, slice) => slice);
      const missing = all.filter((slice) => held.every((own) => !own.includes(slice)));
      expect(await distribute(ranks, { order, ahead, allowsMissing: true })).toEqual(held.map(() => missing));
      for (const [rank, { arrived }] of ranks.entries()) {
        const lacks = order.filter((slice) => !held[rank]!.includes(slice) && !missing.includes(slice));
        expect(arrived.toSorted((a, b) => a - b)).toEqual(lacks.toSorted((a, b) => a - b));
        if (held.filter((own) => own.length > 0).length === 1) expect(arrived).toEqual(lacks);
      }
    }),
    { numRuns: 60 },
  );
});

test('nothing is sent if a slice is on no rank, even if it is not to be transferred, unless missing slices are allowed', async () => {
  const ranks = [new TinySlices(3, [0, 1]), new TinySlices(3, [])];
  expect(await distribute(ranks, { order: [0] })).toEqual([[2], [2]]);
  expect(ranks[1]!.arrived).toEqual([]);
  expect(await distribute(ranks, { order: [1, 2, 0], allowsMissing: true })).toEqual([[2], [2]]);
  expect(ranks[1]!.arrived).toEqual([1, 0]);
});
