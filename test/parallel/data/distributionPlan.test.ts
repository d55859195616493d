import fc from 'fast-check';
import { expect, test } from 'vitest';
import { planDistribution, type SliceReport } from '../../../src/parallel/data/distributionPlan.ts';

const reportOf = (has: readonly number[], damaged: SliceReport['damaged'] = []): SliceReport => ({
  has: Uint8Array.from(has),
  damaged,
});

const planAll = (reports: readonly SliceReport[]) => reports.map((_, rank) => planDistribution(rank, reports));

/** Random worlds: slices that some ranks have, and damaged transfers of some missing slices. */
const worlds = fc
  .record({ n: fc.integer({ min: 1, max: 7 }), slices: fc.integer({ min: 0, max: 6 }) })
  .chain(({ n, slices }) =>
    fc.array(
      fc.record({
        has: fc.array(fc.integer({ min: 0, max: 1 }), { minLength: slices, maxLength: slices }),
        damaged: fc.uniqueArray(
          fc.record({ slice: fc.nat(6), from: fc.nat(n - 1), times: fc.integer({ min: 1, max: 2 }) }),
          { maxLength: 3, selector: ({ slice, from }) => `${slice}/${from}` },
        ),
      }),
      { minLength: n, maxLength: n },
    ),
  );

test('every rank receives each missing slice once, from a rank that has it, in an order known to both ends', () => {
  fc.assert(
    fc.property(worlds, (world) => {
      const reports = world.map(({ has, damaged }) => reportOf(has, damaged));
      const plans = planAll(reports);
      const { missing } = plans[0]!;
      for (const [rank, { receives, sends, missing: own }] of plans.entries()) {
        expect(own).toEqual(missing);
        const lacks = world[rank]!.has.flatMap((one, slice) => (one === 0 && !missing.includes(slice) ? [slice] : []));
        expect(receives.map(({ slice }) => slice).sort((a, b) => a - b)).toEqual(lacks);
        for (const peer of world.keys()) {
          expect(sends.filter(({ to }) => to === peer)).toEqual(
            plans[peer]!.receives.filter(({ from }) => from === rank),
          );
        }
        for (const { slice, from, hops } of receives) {
          const earlier = plans[from]!.receives.find((one) => one.slice === slice);
          expect(hops).toBe(world[from]!.has[slice] === 1 ? 1 : earlier!.hops + 1);
        }
      }
      expect(missing).toEqual(missing.filter((slice) => world.every(({ has }) => has[slice] === 0)));
    }),
  );
});

test('slices that only one rank has are passed on along the ring', () => {
  const plans = planAll([reportOf([0, 0]), reportOf([1, 1]), reportOf([0, 0])]);
  expect(plans[2]!.receives.map(({ slice, from }) => [slice, from])).toEqual([
    [0, 1],
    [1, 1],
  ]);
  expect(plans[0]!.receives.map(({ slice, from }) => [slice, from])).toEqual([
    [0, 2],
    [1, 2],
  ]);
});

test('a damaged slice is requested from the rank that has sent it damaged least often', () => {
  const has = [[1], [0], [0], [1]] as const;
  const from = (damaged: SliceReport['damaged']): number =>
    planDistribution(
      1,
      has.map((one, rank) => reportOf(one, rank === 1 ? damaged : [])),
    ).receives[0]!.from;
  expect(from([])).toBe(0);
  expect(from([{ slice: 0, from: 0, times: 1 }])).toBe(3);
  const both = [
    { slice: 0, from: 0, times: 1 },
    { slice: 0, from: 3, times: 2 },
  ];
  expect(from(both)).toBe(0);
});
