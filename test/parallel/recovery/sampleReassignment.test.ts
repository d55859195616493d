import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { deal, type DealtWindow, type Holding } from '../../../src/parallel/recovery/sampleReassignment.ts';

const fresh: DealtWindow = { dataEpoch: 1, offset: 20, size: 7, dealtIn: 5 };
const old: DealtWindow = { dataEpoch: 1, offset: 20, size: 9, dealtIn: 3 };
const holding = (window: DealtWindow, ...positions: number[]): Holding => ({
  window,
  positions: Uint32Array.from(positions),
});

/** All ranks' parts. */
const dealAll = (holdings: (Holding | null)[], batchSize = 4) =>
  holdings.map((_, rank) => deal(fresh, holdings, { rank, batchSize }));
const partsOf = (deals: ReturnType<typeof dealAll>) => deals.map(({ positions }) => [...positions]);

describe('a deal', () => {
  test('of a window that nobody holds gives every n-th sample to each', () => {
    const deals = dealAll([null, null, null]);
    expect(partsOf(deals)).toEqual([
      [0, 3, 6],
      [1, 4],
      [2, 5],
    ]);
    for (const { window, rounds } of deals) expect([window, rounds]).toEqual([fresh, 1]);
  });

  test('of a window that some hold gives what nobody holds to all, in as many batches as that takes', () => {
    const deals = dealAll([holding(old, 0, 1), null], 2);
    expect(deals.map(({ window }) => window)).toEqual([old, old]);
    expect(deals.map(({ keeps }) => keeps)).toEqual([true, false]);
    expect(partsOf(deals)).toEqual([
      [2, 4, 6, 8],
      [3, 5, 7],
    ]);
    expect(deals.map(({ rounds }) => rounds)).toEqual([2, 2]);
  });

  test('takes the window that was dealt out last', () => {
    const later = { ...old, size: 4, dealtIn: 4 };
    const deals = dealAll([holding(old, 0, 1, 2, 3, 4), holding(later, 1), holding(old, 7)]);
    expect(deals.map(({ keeps }) => keeps)).toEqual([false, true, false]);
    expect(deals[0]!.window).toEqual(later);
    expect(partsOf(deals)).toEqual([[0], [2], [3]]);
  });

  test('of ranks that hold the same sample lets the lowest keep what it holds', () => {
    const deals = dealAll([holding(old, 0, 1), holding(old, 1, 2), holding(old, 2, 3)]);
    expect(deals.map(({ keeps }) => keeps)).toEqual([true, false, true]);
    expect(partsOf(deals)).toEqual([[4, 7], [5, 8], [6]]);
  });

  test('gives one batch, an empty one, where all is held', () => {
    const deals = dealAll([holding(old, 0, 1, 2, 3, 4, 5, 6, 7, 8), null]);
    expect(partsOf(deals)).toEqual([[], []]);
    expect(deals.map(({ rounds }) => rounds)).toEqual([1, 1]);
  });

  test('has each sample of the window once, whoever holds what, and no batch that is too large', () => {
    const window = fc.constantFrom(fresh, old, { ...old, dealtIn: 4 });
    const anyHolding = fc.option(
      window.chain((of) =>
        fc
          .uniqueArray(fc.nat(of.size - 1), { minLength: 1, maxLength: of.size })
          .map((positions) => holding(of, ...positions)),
      ),
    );
    fc.assert(
      fc.property(fc.array(anyHolding, { minLength: 1, maxLength: 6 }), fc.integer({ min: 1, max: 5 }), (all, size) => {
        const deals = dealAll(all, size);
        const [{ window: dealt, rounds }] = deals as [ReturnType<typeof deal>];
        const counted = deals.flatMap(({ keeps, positions }, rank) => [
          ...(keeps ? all[rank]!.positions : []),
          ...positions,
        ]);
        expect(counted.sort((a, b) => a - b)).toEqual(Array.from({ length: dealt.size }, (_, i) => i));
        for (const one of deals) {
          expect([one.window, one.rounds]).toEqual([dealt, rounds]);
          expect(one.positions.length).toBeLessThanOrEqual(rounds * size);
        }
      }),
    );
  });
});
