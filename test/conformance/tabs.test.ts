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
  'allReduce and reduce are correct if one rank has another value than all other ranks',
  'calls of a subgroup interpret src, dst and peers as global ranks',
  'a call of allToAll that differs on one rank fails on every rank',
  'every object collective transfers values of every kind unchanged',
  'send and recv transfer a message between every pair of ranks, also between ranks that are not neighbours',
  'join ends with equal weights on 2, 4 and 5 ranks, even if some ranks have no inputs',
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

const inTab = TAB_CASES.filter(({ number }) => number === 34);
test.each(inTab.map((entry) => [entry.title, entry] as const))('%s', async (_title, { run }) => {
  await expect(run(tabs)).resolves.toBeUndefined();
});
