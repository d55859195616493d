/**
 * Tabs that train, break off and come together again: each sample once, one state, nothing undone.
 * The laws are in recovery.ts.
 */
import { expect, test } from 'vitest';
import { FROM, SCHEDULES } from './count.ts';
import { describeRecovery, playRecovery } from './recovery.ts';

test.each(['replicated', 'federated'] as const)(
  `${SCHEDULES} schedules of %s data break no law`,
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
    // The laws mean nothing where the dice never got far.
    expect(total.worlds).toBeGreaterThan(3 * SCHEDULES);
    expect(total.caughtUp).toBeGreaterThan(SCHEDULES / 8);
    expect(total.loaded).toBeGreaterThan(SCHEDULES);
    // Gradients kept from a federated step are computed again.
    if (kind === 'replicated') expect(total.retaken).toBeGreaterThan(SCHEDULES / 2);
  },
);

test('a schedule is the same every time', async () => {
  const first = await describeRecovery('federated', FROM + 7);
  expect(first).toContain('generation 2');
  expect(await describeRecovery('federated', FROM + 7)).toBe(first);
});
