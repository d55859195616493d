/**
 * Tabs that train, fail and train again, in random schedules. Each sample must be learned exactly
 * once in an epoch, all ranks must have the same state, and no step may be undone. The invariants
 * are in recovery/invariants.ts.
 */
import { expect, test } from 'vitest';
import { FROM, SCHEDULES } from './count.ts';
import { describeRecovery, playRecovery } from './recovery/schedule.ts';

test.each(['replicated', 'federated'] as const)(
  `${SCHEDULES} random recovery schedules of runs on %s data break no invariant`,
  { timeout: 6_000_000 },
  async (kind) => {
    const total = { worlds: 0, caughtUp: 0, loaded: 0, retaken: 0 };
    for (let seed = FROM; seed < FROM + SCHEDULES; seed++) {
      const { violation, seen } = await playRecovery(kind, seed);
      if (violation) expect.fail(await describeRecovery(kind, seed));
      total.worlds += seen.worlds;
      total.caughtUp += seen.caughtUp;
      total.loaded += seen.loaded;
      total.retaken += seen.retaken;
    }
    if (SCHEDULES < 1000) return;
    // The schedules must reach every situation often enough.
    expect(total.worlds).toBeGreaterThan(3 * SCHEDULES);
    expect(total.caughtUp).toBeGreaterThan(SCHEDULES / 8);
    expect(total.loaded).toBeGreaterThan(SCHEDULES);
    // With federated data, retained gradients of a step are computed again.
    if (kind === 'replicated') expect(total.retaken).toBeGreaterThan(SCHEDULES / 2);
  },
);

test('a schedule has the same outcome in each run', async () => {
  const first = await describeRecovery('federated', FROM + 7);
  expect(first).toContain('generation 2');
  expect(await describeRecovery('federated', FROM + 7)).toBe(first);
});
