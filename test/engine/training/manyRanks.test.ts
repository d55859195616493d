/** Runs with as many ranks as a class and a full room have, and with churn. Memory links. */
import { describe, expect, test } from 'vitest';
import { ManualClock } from '../../manualClock.ts';
import {
  areContiguous,
  COUNTING_PLAN,
  countedOnce,
  createCountingTask,
  createMember,
  isLoss,
  runGeneration,
  stepsOf,
  type Member,
} from '../worlds.ts';

/** Ranks that leave at once, and ranks that join at once. */
const CHURN = 5;

describe('a large run', () => {
  test.each([
    [30, 'ring'],
    [30, 'auto'],
    [64, 'ring'],
  ] as const)(
    'of %i ranks by %s applies every sample once with equal states, although five ranks leave and five join',
    async (n, algorithm) => {
      // No deadline passes on this clock, so that a busy machine changes no outcome.
      const clock = new ManualClock();
      // Three full windows: one before the churn, one for each of the worlds after it.
      const samples = 3 * n * COUNTING_PLAN.batchSize;
      const join = (name: string): Promise<Member> =>
        createMember(name, createCountingTask({ samples }), { ...COUNTING_PLAN, hashEvery: 3, algorithm }, { clock });
      const joinAll = (count: number, prefix: string): Promise<Member[]> =>
        Promise.all(Array.from({ length: count }, (_, i) => join(`${prefix}${i}`)));
      const first = await joinAll(n, 'm');

      const leavers = new Set([0, 1, 7, n - 2, n - 1]);
      const left = await runGeneration(first, { end: { rank: 7, step: 1, frame: 4 }, clock });
      expect(left.results.every((result) => isLoss(result))).toBe(true);
      const remaining = first.filter((_, rank) => !leavers.has(rank));
      expect(remaining).toHaveLength(n - CHURN);
      await runGeneration(remaining, { end: { rank: 2, step: 2, frame: 4 }, clock });

      const present = [...remaining, ...(await joinAll(CHURN, 'j'))];
      const { results, entered } = await runGeneration(present, { clock });
      expect(new Set(entered.map((one) => one?.stateHash)).size).toBe(1);
      for (const result of results) expect(result).toMatchObject({ worldSize: n });
      const used = results.map((result) => (result instanceof Error ? result : result.algorithm));
      if (algorithm === 'ring') expect(new Set(used)).toEqual(new Set(['ring']));
      else expect(used).not.toContain('ring');

      const steps = stepsOf(present);
      expect(steps.length).toBeGreaterThan(2);
      expect(areContiguous(steps, samples)).toBe(true);
      const expected = countedOnce(steps, samples);
      for (const member of present) expect(member.values().slice(0, samples)).toEqual(expected);
      expect(new Set(present.map(({ rank }) => rank.stateHash())).size).toBe(1);
      for (const member of new Set([...first, ...present])) member.dispose();
    },
    60_000,
  );
});
