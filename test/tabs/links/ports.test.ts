/** Tabs of one browser that are linked by message ports instead of WebRTC. */
import { expect, test, vi } from 'vitest';
import type { LinkRoute } from '../../../src/protocol/runEvents.ts';
import { type Tab, worldOfFile } from '../harness/world.ts';

vi.setConfig({ testTimeout: 90_000 });

const world = await worldOfFile();

/** The routes of a tab's links to the ranks `neighbours`, in the first generation. */
async function routes(tab: Tab, neighbours: readonly number[]): Promise<LinkRoute[]> {
  const links = neighbours.map((rank) => tab.event('link', ({ peerRank }) => peerRank === rank));
  return (await Promise.all(links)).map(({ route }) => route);
}

test('ranks are linked by ports inside a browser and by WebRTC between browsers, and train one model', async () => {
  const room = world.createRoom({ maxSteps: 6, hashEvery: 3 }, 4);
  const join = (rank: number, beside?: Tab): Promise<Tab> =>
    world.open(`#${room}?name=tab-${rank}&rank=${rank}&auto`, beside && { beside });
  const [a, c] = await Promise.all([join(0), join(2)]);
  const [b, d] = await Promise.all([join(1, a), join(3, c)]);
  const results = await Promise.all([a, b, c, d].map(async (tab) => (await tab.event('finished')).result));
  expect(new Set(results.flatMap(({ stateHash }) => stateHash)).size).toBe(1);
  const transport = { webrtc: 2, server: 0, memory: 2 };
  expect(results.map((result) => result.transport)).toEqual([transport, transport, transport, transport]);
  expect(await routes(a, [1, 3])).toEqual(['memory', 'direct']);
  expect(await routes(d, [2, 0])).toEqual(['memory', 'direct']);
  expect([a, b, c, d].flatMap(({ violations }) => violations)).toEqual([]);
});

test('a run continues when a tab linked by ports crashes or is closed', async () => {
  const room = world.createRoom({ epochs: 1000, batchSize: 16 }, 3, { min: 1, max: 3 });
  const first = await world.join(room, 'tab-0');
  const others = await Promise.all([1, 2].map((i) => world.join(room, `tab-${i}`, { beside: first })));
  const [second, third] = others as [Tab, Tab];
  await Promise.all([first, ...others].map((tab) => tab.event('step', ({ step }) => step === 2)));
  const links = [first, ...others].flatMap(({ events }) => events.filter((event) => event.type === 'link'));
  expect(links.map(({ route }) => route)).toEqual(Array.from({ length: 6 }, () => 'memory'));
  const session = await third.page.context().newCDPSession(third.page);
  session.send('Page.crash').catch(() => {});
  await Promise.all([first, second].map((tab) => tab.event('generation', ({ worldSize }) => worldSize === 2)));
  const soon = first.events.filter(({ type }) => type === 'step').length + 2;
  await first.event('step', ({ step }) => step >= soon);
  await second.page.close({ runBeforeUnload: true });
  await first.event('generation', ({ worldSize }) => worldSize === 1);
  expect(first.events.filter(({ type }) => type === 'failed')).toEqual([]);
});
