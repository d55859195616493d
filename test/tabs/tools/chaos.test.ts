/** Checks in real tabs that each fault of `npm run tools -- chaos` has its effect. */
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { LiveTab } from '../../../tools/chaos/liveTab.ts';
import { ServerProcess } from '../../../tools/chaos/serverProcess.ts';
import { breakEdge, closeTab, crashTab, cutTab, freezeTab } from '../../../tools/chaos/tabFaults.ts';
import type { EngineEvent } from '../../../src/protocol/events.ts';

vi.setConfig({ testTimeout: 60_000 });

/**
 * Milliseconds that a tab does not respond: the time of several steps, but less than the time after
 * which the room removes the tab.
 */
const AWAY_MS = 4_000;
/**
 * Milliseconds after which the reports of earlier steps have arrived: a tab sends them in batches,
 * and a slow machine delays them.
 */
const REPORTED_MS = 1_000;
/** Options of vi.waitUntil: expected events must arrive within this time. */
const WAIT = { timeout: 50_000 };
/**
 * Steps that a tab may still report after another tab stopped: one step that was being computed,
 * and one whose last byte had already arrived.
 */
const IN_FLIGHT = 2;

let server: ServerProcess;
let ann: LiveTab;
let ben: LiveTab;
const events = new Map<string, EngineEvent[]>();
const crashed: string[] = [];

const heard = (tab: string): EngineEvent[] => events.get(tab) ?? [];
const stepsOf = (tab: string): number => heard(tab).filter(({ type }) => type === 'step').length;

const stops = (event: EngineEvent): boolean =>
  event.type === 'failed' || (event.type === 'state' && event.state !== 'RUNNING');

/** Resolves after the tab has taken three more steps. */
async function more(tab: string): Promise<void> {
  const enough = stepsOf(tab) + 3;
  await vi.waitUntil(() => stepsOf(tab) >= enough, WAIT);
}

beforeAll(async () => {
  server = await ServerProcess.start({ batch: 4, epochs: 100 }, 2, null);
  const open = (name: string): Promise<LiveTab> =>
    LiveTab.open(name, `${server.page}#${server.room}?name=${name}&auto`, {
      launch: {},
      onevent: (tab, event) => events.set(tab, [...heard(tab), event]),
      onerror: () => {},
      oncrash: (tab) => crashed.push(tab),
    });
  [ann, ben] = await Promise.all([open('ann'), open('ben')]);
  await Promise.all([more('ann'), more('ben')]);
}, 120_000);
afterAll(async () => {
  await Promise.all([ann.dispose(), ben.dispose()]);
  await server.kill();
});

test.each([
  ['freeze', freezeTab],
  ['cut', cutTab],
])('during the fault %s no rank takes a step; all continue when the affected tab is back', async (_name, begin) => {
  const goOn = await begin(ann);
  await sleep(REPORTED_MS);
  const before = stepsOf('ben');
  await sleep(AWAY_MS - REPORTED_MS);
  const during = stepsOf('ben') - before;
  goOn();
  expect(during).toBeLessThanOrEqual(IN_FLIGHT);
  await Promise.all([more('ann'), more('ben')]);
});

test('during the fault cut, the page of the affected tab runs scripts, but cannot reach the server', async () => {
  const mend = await cutTab(ann);
  const answer = ann.page.evaluate<number>(`fetch('/healthz').then(({ status }) => status)`);
  expect(await Promise.race([answer, sleep(1_000, 'silence')])).toBe('silence');
  expect(await ann.page.evaluate('1 + 1')).toBe(2);
  mend();
  expect(await answer).toBe(200);
  await more('ann');
});

test('during the fault server, training continues; the server restarts at the same address', async () => {
  await server.kill();
  await expect(fetch(`${server.page}healthz`)).rejects.toThrow();
  await more('ann');
  await server.restart();
  expect((await fetch(`${server.page}healthz`)).status).toBe(200);
  expect(server.problem).toBeNull();
});

test('the faults duplicate and close: the copied tab is a tab of its own, and gets a pagehide event when it closes', async () => {
  const copy = await ann.duplicate('copy');
  // The copy is either admitted or rejected: this test accepts both.
  await vi.waitUntil(() => heard('copy').some(({ type }) => type === 'admitted' || type === 'failed'), WAIT);
  expect(copy.page.url()).toBe(ann.page.url());
  await copy.page.evaluate(`addEventListener('pagehide', () => localStorage.setItem('test.bye', 'heard'))`);
  await closeTab(copy);
  expect(await ann.page.evaluate(`localStorage.getItem('test.bye')`)).toBe('heard');
  await copy.dispose();
});

test('the fault edge: both ends of the broken connection detect the break', async () => {
  await more('ann');
  const tabs = ['ann', 'ben'];
  const counts = tabs.map((tab) => heard(tab).length);
  await breakEdge(ann);
  await expect.poll(() => tabs.map((tab, i) => heard(tab).slice(counts[i]).some(stops)), WAIT).toEqual([true, true]);
});

test('the fault crash: only the page of the crashed tab is gone', async () => {
  await crashTab(ben);
  expect(crashed).toEqual(['ben']);
  expect(await ann.page.evaluate('1 + 1')).toBe(2);
});
