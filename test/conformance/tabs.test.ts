/**
 * Conformance cases in real tabs, one of each kind: `npm run -s conformance -- --tabs` runs all
 * that can run there.
 */
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { CASES_IN_TABS, TAB_CASES, Tabs } from './tabs.ts';

vi.setConfig({ testTimeout: 60_000 });

/**
 * Reductions, roots and ranks of subgroups, mismatches, objects, messages between ranks that are
 * not neighbours, uneven inputs.
 */
const TITLES = [
  'one rank in turn has another value than all others',
  'src, dst and peers are global ranks in a subgroup',
  'ranks that differ: allToAll',
  'objects of every kind by every object collective',
  'send and recv between all pairs, neighbours or not',
  'join of more ranks, some of them without inputs',
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
