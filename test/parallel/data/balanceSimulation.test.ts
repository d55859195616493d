/** Simulates devices whose speeds change, with the code that measures passes and decides shares. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { PassTimer, QUARTERS_PER_BATCH } from '../../../src/parallel/data/passTimes.ts';
import { decideShares, equalShares, passSizesFor, type ShareDecision } from '../../../src/parallel/data/workShares.ts';
import { createRng } from '../../../src/util/rng.ts';

const BATCH = 32;
/** Steps between two decisions. */
const EVERY = 4;

/** A pass takes `a` ms, and each of its samples takes `b` ms. */
interface Device {
  a: number;
  b: number;
}

/** From this step on, a rank takes `factor` times as long as at the beginning. */
interface Change {
  step: number;
  rank: number;
  factor: number;
}

interface Simulated {
  /** Shares of each step, with the reason. */
  history: ShareDecision[];
  /** Milliseconds of the slowest rank without noise, after all changes. */
  lastMs: number;
  equalMs: number;
}

/** Returns the sizes of a share's passes. */
function sizesOf(share: number): number[] {
  return passSizesFor((share * BATCH) / QUARTERS_PER_BATCH, BATCH);
}

function simulate(
  devices: readonly Device[],
  changes: readonly Change[],
  { steps, noise = 0, seed = 1 }: { steps: number; noise?: number; seed?: number },
): Simulated {
  const rng = createRng(seed);
  const timers = devices.map(() => new PassTimer());
  const history: ShareDecision[] = [];
  let shares = equalShares(devices.length, 'unknown');
  const factorOf = (rank: number, step: number): number =>
    changes.findLast((change) => change.rank === rank && change.step <= step)?.factor ?? 1;
  for (let step = 0; step < steps; step++) {
    if (step > 0 && step % EVERY === 0) {
      shares = decideShares(
        shares,
        timers.map(({ times }) => times),
      );
    }
    history.push(shares);
    for (const [rank, { a, b }] of devices.entries()) {
      const passes = sizesOf(shares.shares[rank]!).map((size) => ({
        isWhole: size === BATCH,
        ms: (a + b * size) * factorOf(rank, step) * (1 + noise * (2 * rng.next() - 1)),
      }));
      timers[rank]!.add(passes);
    }
  }
  const slowest = (all: readonly number[]): number =>
    Math.max(
      ...devices.map(({ a, b }, rank) =>
        sizesOf(all[rank]!).reduce((sum, size) => sum + (a + b * size) * factorOf(rank, steps), 0),
      ),
    );
  return { history, lastMs: slowest(shares.shares), equalMs: slowest(devices.map(() => QUARTERS_PER_BATCH)) };
}

const device = fc.record({
  a: fc.double({ min: 0, max: 20, noNaN: true }),
  b: fc.double({ min: 0.05, max: 2, noNaN: true }),
});
const scenario = fc.record({
  devices: fc.array(device, { minLength: 2, maxLength: 8 }),
  changes: fc.array(
    fc.record({
      step: fc.integer({ min: 0, max: 100 }),
      rank: fc.integer({ min: 0, max: 7 }),
      factor: fc.constantFrom(0.25, 0.5, 1, 1.5, 2, 4, 8),
    }),
    { minLength: 1, maxLength: 2 },
  ),
  noise: fc.constantFrom(0, 0.02, 0.05),
  seed: fc.integer(),
});

/** The latest step from which a decision may still be due to a change. */
const SETTLED = 160;
const STEPS = 260;
const RUNS = { numRuns: 300, seed: 1 };

describe('after random changes of speed,', () => {
  test('steps are at most 10 % slower than with equal shares, and shares change at most once after step 160', () => {
    fc.assert(
      fc.property(scenario, ({ devices, changes, noise, seed }) => {
        const inOrder = changes
          .map((change) => ({ ...change, rank: change.rank % devices.length }))
          .sort((a, b) => a.step - b.step);
        const { history, lastMs, equalMs } = simulate(devices, inOrder, { steps: STEPS, noise, seed });
        expect(lastMs).toBeLessThanOrEqual(1.1 * equalMs);
        const late = history.slice(SETTLED);
        const changed = late.filter(({ shares }, i) => i > 0 && shares.join() !== late[i - 1]!.shares.join());
        expect(changed.length).toBeLessThanOrEqual(noise > 0.02 ? 1 : 0);
      }),
      RUNS,
    );
  });

  test('a rank that becomes four times as slow gets a quarter of its equal share, and steps are over 3 times as fast', () => {
    const devices = Array.from({ length: 4 }, () => ({ a: 0.1, b: 1 }));
    const { history, lastMs, equalMs } = simulate(devices, [{ step: 30, rank: 2, factor: 4 }], {
      steps: 80,
      noise: 0.03,
    });
    expect(history.at(-1)).toMatchObject({ shares: [5, 5, 1, 5], reason: 'speed' });
    expect(equalMs / lastMs).toBeGreaterThan(3.1);
  });

  test.each([
    [4, 2],
    [4, 5],
    [2, 10],
  ])('shares of %i ranks become equal when a slow rank recovers, if a pass costs %i ms', (worldSize, a) => {
    const devices = Array.from({ length: worldSize }, () => ({ a, b: 0.5 }));
    const changes = [
      { step: 0, rank: 1, factor: 4 },
      { step: 30, rank: 1, factor: 1 },
    ];
    const { history } = simulate(devices, changes, { steps: 60 });
    expect(history[29]!.reason).toBe('speed');
    expect(history.at(-1)).toMatchObject({ shares: devices.map(() => QUARTERS_PER_BATCH), reason: 'similar' });
  });
});

/** Milliseconds of a pass with noise of up to 30 %, of which every tenth is interrupted. */
const interrupted = (ms: number, rng: { next(): number }): number =>
  ms * (0.7 + 0.6 * rng.next()) * (rng.next() < 0.1 ? 3 : 1);

/** Shares of each step of these devices. */
function sharesOver(steps: number, devices: readonly Device[], seed: number): string[] {
  const rng = createRng(seed);
  const timers = devices.map(() => new PassTimer());
  let shares = equalShares(devices.length, 'unknown');
  return Array.from({ length: steps }, (_, step) => {
    const times = timers.map((timer) => timer.times);
    if (step > 0 && step % EVERY === 0) shares = decideShares(shares, times);
    for (const [rank, { a, b }] of devices.entries()) {
      const sizes = sizesOf(shares.shares[rank]!);
      timers[rank]!.add(sizes.map((size) => ({ isWhole: size === BATCH, ms: interrupted(a + b * size, rng) })));
    }
    return shares.shares.join();
  });
}

describe('while passes are interrupted at random,', () => {
  test.each([2, 4, 8])('the shares of %i equal ranks never change', (worldSize) => {
    for (let seed = 0; seed < 50; seed++) {
      const devices = Array.from({ length: worldSize }, () => ({ a: 2, b: 1 }));
      expect(new Set(sharesOver(1000, devices, seed)).size).toBe(1);
    }
  });

  test.each([2, 4, 8])('one of %i ranks that is twice as slow soon gets fewer samples', (worldSize) => {
    for (let seed = 0; seed < 20; seed++) {
      const devices = Array.from({ length: worldSize }, (_, rank) => ({ a: 0, b: rank === 0 ? 2 : 1 }));
      const first = sharesOver(200, devices, seed).findIndex(
        (shares) => Number(shares.split(',')[0]) < QUARTERS_PER_BATCH,
      );
      expect(first).toBeGreaterThan(0);
    }
  });
});

/** Milliseconds of a step's passes of each size; `null` if the step has none. */
type StepTimes = readonly [whole: number | null, quarter: number | null];

function timed(steps: readonly StepTimes[]): PassTimer {
  const timer = new PassTimer();
  for (const [whole, quarter] of steps) {
    timer.add([
      ...(quarter === null ? [] : [{ isWhole: false, ms: quarter }]),
      ...(whole === null ? [] : [{ isWhole: true, ms: whole }]),
    ]);
  }
  return timer;
}

function repeat(count: number, whole: number | null, quarter: number | null): StepTimes[] {
  return Array.from({ length: count }, () => [whole, quarter] as const);
}

describe('the times of passes', () => {
  test('have no fixed cost until passes of both sizes are measured', () => {
    expect(timed(repeat(4, 40, null)).times).toEqual({ whole: 40, quarter: 10 });
    expect(timed(repeat(4, 40, 30)).times).toEqual({ whole: 40, quarter: 30 });
  });

  test('of a size without recent passes follow the times of the other size', () => {
    const before = [...repeat(5, 40, null), ...repeat(4, null, 20)];
    expect(timed(before).times).toEqual({ whole: 40, quarter: 20 });
    expect(timed([...before, ...repeat(5, null, 5)]).times).toEqual({ whole: 10, quarter: 5 });
  });

  test('are medians, and ignore a clock that stands still', () => {
    expect(timed([...repeat(2, 40, null), [400, null], ...repeat(2, 41, null)]).times!.whole).toBe(41);
    expect(timed([...repeat(3, 40, null), ...repeat(3, 0, null)]).times!.whole).toBe(40);
    expect(timed(repeat(3, 0, null)).times).toBeNull();
  });
});
