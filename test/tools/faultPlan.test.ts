import { describe, expect, test } from 'vitest';
import { FAULT_KINDS, losesTab } from '../../tools/chaos/faults.ts';
import { MIN_TABS, planFaults, REST_MS } from '../../tools/chaos/schedule.ts';

const SEEDS = Array.from({ length: 50 }, (_, seed) => seed);

test('fault plans are equal for the same seed, and different for different seeds', () => {
  const plan = planFaults({ seed: 1, minutes: 10, tabs: 4 });
  expect(planFaults({ seed: 1, minutes: 10, tabs: 4 })).toEqual(plan);
  expect(planFaults({ seed: 2, minutes: 10, tabs: 4 })).not.toEqual(plan);
});

test('a plan of three minutes contains every kind of fault', () => {
  for (const seed of SEEDS) {
    const kinds = new Set(planFaults({ seed, minutes: 3, tabs: 4 }).map(({ kind }) => kind));
    expect([...kinds].sort()).toEqual([...FAULT_KINDS].sort());
  }
});

test('faults are in the order of time, with pauses between them, and within the planned time', () => {
  for (const seed of SEEDS) {
    const plan = planFaults({ seed, minutes: 5, tabs: 4 });
    for (const [i, { at }] of plan.entries()) {
      expect(at - (plan[i - 1]?.at ?? 0)).toBeGreaterThanOrEqual(REST_MS);
      expect(at).toBeLessThanOrEqual(300_000);
    }
  }
});

describe.each([MIN_TABS, 4, 8])('a fault plan for %i tabs', (tabs) => {
  test('has at most one tab missing or extra, disturbs only present tabs, and ends with all tabs present', () => {
    for (const seed of SEEDS) {
      const seated = new Set(Array.from({ length: tabs }, (_, seat) => seat));
      for (const { kind, seat } of planFaults({ seed, minutes: 20, tabs })) {
        if (kind === 'server') continue;
        if (kind === 'join') {
          expect(seated.has(seat)).toBe(false);
          seated.add(seat);
        } else if (kind === 'duplicate') {
          expect(seated.has(seat)).toBe(true);
          seated.add(tabs);
        } else {
          expect(seated.has(seat)).toBe(true);
          if (losesTab(kind)) expect(seated.size - 1).toBeGreaterThanOrEqual(2);
          if (kind === 'close' || kind === 'crash') seated.delete(seat);
        }
        expect(Math.abs(seated.size - tabs)).toBeLessThanOrEqual(1);
      }
      expect([...seated].sort((a, b) => a - b)).toEqual(Array.from({ length: tabs }, (_, seat) => seat));
    }
  });
});

test('a plan of no duration has no faults', () => {
  expect(planFaults({ seed: 1, minutes: 0, tabs: 4 })).toEqual([]);
});
