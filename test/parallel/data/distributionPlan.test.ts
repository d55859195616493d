import fc from 'fast-check';
import { expect, test } from 'vitest';
import { planFileDistribution, type SliceReport } from '../../../src/parallel/data/distributionPlan.ts';

const reportOf = (has: readonly number[], damaged: SliceReport['damaged'] = []): SliceReport => ({
  has: Uint8Array.from(has),
  damaged,
});

const planAll = (reports: readonly SliceReport[], order: readonly number[] = [...reports[0]!.has.keys()]) =>
  reports.map((_, rank) => planFileDistribution(rank, reports, order));

/**
 * Random worlds: slices that some ranks have, damaged transfers of some missing slices, and the
 * order in which some slices are transferred.
 */
const worlds = fc
  .record({ n: fc.integer({ min: 1, max: 7 }), slices: fc.integer({ min: 0, max: 6 }) })
  .chain(({ n, slices }) =>
    fc.record({
      order: fc.shuffledSubarray(Array.from({ length: slices }, (_, slice) => slice)),
      ranks: fc.array(
        fc.record({
          has: fc.array(fc.integer({ min: 0, max: 1 }), { minLength: slices, maxLength: slices }),
          damaged: fc.uniqueArray(
            fc.record({ slice: fc.nat(6), from: fc.nat(n - 1), times: fc.integer({ min: 1, max: 2 }) }),
            { maxLength: 3, selector: ({ slice, from }) => `${slice}/${from}` },
          ),
        }),
        { minLength: n, maxLength: n },
      ),
    }),
  );

test('every rank receives each missing slice once, from its left neighbour or a rank that has it, by priority', () => {
  fc.assert(
    fc.property(worlds, ({ ranks, order }) => {
      const reports = ranks.map(({ has, damaged }) => reportOf(has, damaged));
      const plans = planAll(reports, order);
      const { missing } = plans[0]!;
      for (const [rank, { receives, sends, missing: own }] of plans.entries()) {
        expect(own).toEqual(missing);
        const lacks = order.filter((slice) => ranks[rank]!.has[slice] === 0 && !missing.includes(slice));
        expect(receives.map(({ slice }) => slice)).toEqual(lacks);
        for (const peer of ranks.keys()) {
          expect(sends.filter(({ to }) => to === peer)).toEqual(
            plans[peer]!.receives.filter(({ from }) => from === rank),
          );
        }
      }
      const all = [...reports[0]!.has.keys()];
      expect(missing).toEqual(all.filter((slice) => ranks.every(({ has }) => has[slice] === 0)));
    }),
  );
});

test('no transfer waits for a later one of its link, whatever the priorities are and whichever link is fast', () => {
  fc.assert(
    fc.property(worlds, fc.infiniteStream(fc.nat()), ({ ranks, order }, choices) => {
      const held = ranks.map(({ has }) => new Set([...has.keys()].filter((slice) => has[slice] === 1)));
      const plans = planAll(
        ranks.map(({ has, damaged }) => reportOf(has, damaged)),
        order,
      );
      /** The transfers of each link that have not happened, in the order of its sender. */
      const links = plans.flatMap(({ sends }) => ranks.map((_, peer) => sends.filter(({ to }) => to === peer)));
      for (;;) {
        const ready = links.filter(([next]) => next !== undefined && held[next.from]!.has(next.slice));
        if (ready.length === 0) break;
        const { slice, to } = ready[choices.next().value! % ready.length]!.shift()!;
        held[to]!.add(slice);
      }
      expect(links.flat()).toEqual([]);
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
    planFileDistribution(
      1,
      has.map((one, rank) => reportOf(one, rank === 1 ? damaged : [])),
      [0],
    ).receives[0]!.from;
  expect(from([])).toBe(0);
  expect(from([{ slice: 0, from: 0, times: 1 }])).toBe(3);
  const both = [
    { slice: 0, from: 0, times: 1 },
    { slice: 0, from: 3, times: 2 },
  ];
  expect(from(both)).toBe(0);
});
