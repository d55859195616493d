/**
 * Runs some conformance cases in real tabs, one of each kind. `npm run -s conformance -- --tabs`
 * runs all cases for tabs.
 */
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { CASES_IN_TABS, TAB_CASES, Tabs } from './tabs.ts';

vi.setConfig({ testTimeout: 60_000 });

/**
 * One case for each of these: reductions, global ranks of subgroups, mismatches, objects, messages
 * between ranks that are not neighbours, uneven inputs.
 */
const TITLES = [
  'each rank in turn has another value than all other ranks',
  'src, dst and peers in calls of a subgroup are global ranks',
  'calls of allToAll that differ between ranks fail',
  'every object collective handles objects of every kind',
  'send and recv between all pairs of ranks, neighbours or not',
  'join of 2, 4 and 5 ranks, some of them without inputs',
];

let tabs: Tabs;
beforeAll(async () => {
  tabs = await Tabs.start();
}, 120_000);
afterAll(() => tabs?.close());

test.each(TITLES)('%s', async (title) => {
  const entry = CASES_IN_TABS.find((candidate) => candidate.title === title);
  expect(await tabs.runCase(entry!)).toEqual([]);
});

test.each(TAB_CASES.filter(({ number }) => number === 34))('$title', ({ run }) => run(tabs));
