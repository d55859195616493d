import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { QUARTERS_PER_BATCH, type PassTimes } from '../../../src/parallel/data/passTimes.ts';
import {
  decideShares,
  equalShares,
  REQUIRED_SHARE_CONFIRMATIONS,
  windowPartOfRank,
  passSizesFor,
  plausibleSpeeds,
  type ShareDecision,
} from '../../../src/parallel/data/workShares.ts';

const BATCH = 32;

/** Returns the times of passes at these speeds, in samples per second. */
function timesAt(speeds: readonly (number | null)[], ratio = QUARTERS_PER_BATCH, batch = BATCH): (PassTimes | null)[] {
  return speeds.map(
    (speed) => speed && { whole: (1000 * batch) / speed, quarter: (1000 * batch) / (ratio * speed) },
  ) as (PassTimes | null)[];
}

/** Decides `times` times with the same speeds, from equal shares on. */
function decided(
  speeds: readonly (number | null)[],
  times = REQUIRED_SHARE_CONFIRMATIONS,
  from = equalShares(speeds.length, 'unknown'),
): ShareDecision {
  let shares = from;
  for (let i = 0; i < times; i++) shares = decideShares(shares, timesAt(speeds));
  return shares;
}

const anySpeed = fc.oneof(
  fc.double({ min: 1, max: 10_000, noNaN: true }),
  fc.constantFrom(NaN, 0, -5, 1e9, Infinity, -Infinity, Number.MIN_VALUE),
  fc.double(),
);
const anySpeeds = fc.array(anySpeed, { minLength: 1, maxLength: 64 });

describe('shares by speed', () => {
  test('follow the speeds: a rank with a quarter of the speed of three others gets one part of sixteen', () => {
    expect(decided([400, 400, 100, 400])).toMatchObject({ shares: [5, 5, 1, 5], reason: 'speed' });
    expect(decided([100, 300])).toMatchObject({ shares: [2, 6], reason: 'speed' });
  });

  test('stay equal if speeds differ by a factor of at most 1.3, or if unequal shares would save only a few milliseconds', () => {
    expect(decided([130, 100, 100])).toMatchObject({ shares: [4, 4, 4], reason: 'similar' });
    expect(decided([400_000, 100_000])).toMatchObject({ shares: [4, 4], reason: 'similar' });
  });

  test('are used after five decisions in a row with the same slowest rank', () => {
    const four = decided([400, 100], 4);
    expect(four).toMatchObject({ shares: [4, 4], reason: 'unknown', confirmations: 4 });
    expect(decideShares(decideShares(four, timesAt([400, 390])), timesAt([400, 100])).shares).toEqual([4, 4]);
    expect(decideShares(decideShares(four, timesAt([100, 400])), timesAt([400, 100])).shares).toEqual([4, 4]);
    expect(decideShares(four, timesAt([400, 100])).reason).toBe('speed');
  });

  test('change immediately if another rank becomes slow, or if speeds become similar', () => {
    const first = decided([400, 400, 400, 100]);
    const second = decideShares(first, timesAt([100, 400, 400, 400]));
    expect(second.shares).toEqual([1, 5, 5, 5]);
    const other = decided([200, 100]);
    expect(decideShares(other, timesAt([200, 190]))).toMatchObject({ shares: [4, 4], reason: 'similar' });
  });

  test('become equal after two decisions in which unequal shares save little time', () => {
    const first = decided([400, 400, 400, 100]);
    const once = decideShares(first, timesAt([400, 400, 390, 380]));
    expect(once).toMatchObject({ shares: first.shares, reason: 'speed', confirmations: 1 });
    expect(decideShares(once, timesAt([400, 400, 390, 380]))).toMatchObject({
      shares: [4, 4, 4, 4],
      reason: 'similar',
    });
  });

  test('follow changed speeds after two decisions if new shares save little time', () => {
    const first = decided([400, 400, 400, 200]);
    expect(first.shares).toEqual([5, 5, 4, 2]);
    const once = decideShares(first, timesAt([330, 400, 400, 250]));
    expect(once.shares).toEqual(first.shares);
    expect(decideShares(once, timesAt([330, 400, 400, 250])).shares).toEqual(
      decided([330, 400, 400, 250], 2, first).shares,
    );
    const calm = decideShares(once, timesAt([400, 400, 400, 200]));
    expect(decideShares(calm, timesAt([330, 400, 400, 250])).shares).toEqual(first.shares);
  });

  test('do not oscillate while speeds vary by 10 %', () => {
    let shares = decided([400, 400, 400, 100]);
    const before = shares.shares;
    for (let i = 0; i < 50; i++) {
      const speeds = [400, 400, 400, 100].map((speed, rank) => speed * (1 + (((i * 7 + rank * 3) % 11) - 5) / 50));
      shares = decideShares(shares, timesAt(speeds));
      expect(shares.shares).toEqual(before);
    }
  });

  test('become and stay equal if small passes take as long as large ones', () => {
    const first = decided([200, 100]);
    expect(first.shares).toEqual([6, 2]);
    let shares = decideShares(first, timesAt([200, 100], 1));
    expect(shares).toMatchObject({ shares: [4, 4], reason: 'overhead' });
    for (let i = 0; i < 20; i++) shares = decideShares(shares, timesAt([200, 100], 1));
    expect(shares).toMatchObject({ shares: [4, 4], reason: 'overhead' });
  });

  test.each([NaN, 0, -1, 1e9, Infinity])('never exceed equal shares for a rank that reports the speed %d', (speed) => {
    const speeds = plausibleSpeeds([400, speed, 100, 400]);
    expect(speeds).toEqual([400, null, 100, 400]);
    const { shares, reason } = decided(speeds);
    expect(reason).toBe('speed');
    expect(shares[1]).toBeLessThanOrEqual(QUARTERS_PER_BATCH);
    expect(shares[1]).toBeGreaterThanOrEqual(1);
  });

  test('ignore a speed that is a thousand times that of other ranks', () => {
    expect(plausibleSpeeds([100, 120, 200_000])).toEqual([100, 120, null]);
    expect(plausibleSpeeds([100, 120, 50_000])).toEqual([100, 120, 50_000]);
    expect(plausibleSpeeds([null, 100])).toEqual([null, 100]);
  });

  test('always have the sum of equal shares and stay within bounds, whatever ranks report', () => {
    fc.assert(
      fc.property(
        fc.array(anySpeeds, { minLength: 1, maxLength: 6 }),
        fc.integer({ min: 4, max: 512 }),
        (rows, batch) => {
          const n = rows[0]!.length;
          let shares = equalShares(n, 'unknown');
          for (const row of rows) {
            const reported = Array.from({ length: n }, (_, rank) => row[rank % row.length]!);
            const speeds = plausibleSpeeds(reported);
            const next = decideShares(shares, timesAt(speeds, 3, batch));
            expect(next).toEqual(decideShares(shares, timesAt(speeds, 3, batch)));
            shares = next;
            expect(shares.shares.reduce((sum, share) => sum + share, 0)).toBe(QUARTERS_PER_BATCH * n);
            for (const share of shares.shares) {
              expect(share).toBeGreaterThanOrEqual(1);
              expect(share).toBeLessThanOrEqual(4 * QUARTERS_PER_BATCH);
            }
          }
        },
      ),
      {
        examples: [
          [[[Number.MIN_VALUE]], 4],
          [[[Number.MIN_VALUE, 100]], 4],
        ],
      },
    );
  });
});

describe('the parts of a window', () => {
  const shares = fc.array(fc.integer({ min: 1, max: 16 }), { minLength: 1, maxLength: 64 });

  test('are disjoint, cover the window, and fit in the passes of their ranks', () => {
    fc.assert(
      fc.property(
        shares,
        fc.integer({ min: 4, max: 300 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (given, batch, part) => {
          const total = given.reduce((sum, share) => sum + share, 0);
          const size = Math.floor((part * total * batch) / QUARTERS_PER_BATCH);
          let at = 0;
          for (const [rank, share] of given.entries()) {
            const { start, end } = windowPartOfRank(size, given, rank);
            expect(start).toBe(at);
            expect(end - start).toBeLessThanOrEqual(Math.ceil((share * batch) / QUARTERS_PER_BATCH));
            const passes = passSizesFor(end - start, batch);
            expect(passes.reduce((sum, pass) => sum + pass, 0)).toBeGreaterThanOrEqual(end - start);
            at = end;
          }
          expect(at).toBe(size);
        },
      ),
    );
  });

  test('are computed in the fewest passes, of two possible sizes', () => {
    expect(passSizesFor(32, 32)).toEqual([32]);
    expect(passSizesFor(40, 32)).toEqual([8, 32]);
    expect(passSizesFor(8, 32)).toEqual([8]);
    expect(passSizesFor(63, 32)).toEqual([32, 32]);
    expect(passSizesFor(0, 32)).toEqual([8]);
    expect(passSizesFor(30, 30)).toEqual([30]);
    expect(passSizesFor(38, 30)).toEqual([8, 30]);
  });
});
