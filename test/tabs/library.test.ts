/** The library without our app: two tabs of a page of somebody's own train with DistributedDataParallel. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { build } from 'vite';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchBrowser } from '../../launcher/browser.ts';
import { deferred } from '../../src/util/deferred.ts';
import { startSignaling, type SignalingServer } from '../../signaling/index.ts';
import { DEFAULT_JOB } from '../../src/protocol/job.ts';
import type { Wishes } from './library.ts';

let dist: string;
let server: SignalingServer;
let browser: Browser;

beforeAll(async () => {
  dist = await mkdtemp(path.join(tmpdir(), 'peergrad-library-'));
  const root = path.resolve(import.meta.dirname, '../..');
  await build({
    ...{ root, logLevel: 'error' },
    build: { outDir: dist, rolldownOptions: { input: path.join(import.meta.dirname, 'library.html') } },
  });
  server = await startSignaling({ dist });
  browser = await launchBrowser();
}, 120_000);

afterAll(async () => {
  await browser?.close();
  await server?.close();
  await rm(dist, { recursive: true });
});

/** Two tabs of one browser; the first hands over the code of a room that it opens. */
async function twoTabs() {
  const context = await browser.newContext();
  await context.grantPermissions(['microphone']);
  const openTab = async (): Promise<Page> => {
    const page = await context.newPage();
    await page.goto(`${server.url}/test/tabs/library.html`);
    await page.waitForFunction(() => 'train' in window);
    return page;
  };
  const tabs = [await openTab(), await openTab()] as const;
  const opened = deferred<string>();
  await tabs[0].exposeFunction('onroom', opened.resolve);
  return { tabs, opened: opened.promise };
}

test("Trainer's first tab puts the room into its address, which opens the others", { timeout: 60_000 }, async () => {
  const context = await browser.newContext();
  await context.grantPermissions(['microphone']);
  const open = async (url: string): Promise<Page> => {
    const page = await context.newPage();
    await page.goto(url);
    await page.waitForFunction(() => 'fit' in window);
    return page;
  };
  const first = await open(`${server.url}/test/tabs/library.html`);
  const fitted = first.evaluate(() => window.fit(2));
  await first.waitForFunction(() => location.hash !== '');
  const second = await open(first.url());
  const [a, b] = await Promise.all([fitted, second.evaluate(() => window.fit(2))]);
  expect(b).toEqual(a);
  expect(a.weights[0]).toBeCloseTo(3, 1);
  expect(a.weights[1]).toBeCloseTo(-2, 1);
  await context.close();
});

const createRoom = (): string => server.createRoom({ job: DEFAULT_JOB, startAt: 2 });

test('a group can be made and destroyed again and again, in one room', { timeout: 60_000 }, async () => {
  const {
    tabs: [a, b],
    opened,
  } = await twoTabs();
  // Who opens the room would be rank 0, had it not asked for rank 1.
  const ofA = { rank: 1, worldSize: 2, localRank: 1, localWorldSize: 2, sum: 3 };
  const ofB = { rank: 0, worldSize: 2, localRank: 0, localWorldSize: 2, sum: 3 };
  const first = a.evaluate(() => window.cycle({ worldSize: 2, rank: 1 }, 1));
  const room = await opened;
  expect(await b.evaluate((code) => window.cycle({ room: code, rank: 0 }, 1), room)).toEqual([ofB]);
  expect(await first).toEqual([ofA]);
  // One may be back before the other has left.
  const again = await Promise.all([
    a.evaluate((code) => window.cycle({ room: code, rank: 1, worldSize: 2 }, 5), room),
    b.evaluate((code) => window.cycle({ room: code, rank: 0 }, 5), room),
  ]);
  expect(again).toEqual([Array.from({ length: 5 }, () => ofA), Array.from({ length: 5 }, () => ofB)]);
  await a.context().close();
});

test('a page may hold two groups at once', { timeout: 60_000 }, async () => {
  const { tabs } = await twoTabs();
  const rooms = [createRoom(), createRoom()] as const;
  const said = await Promise.all(
    tabs.map((tab, i) =>
      tab.evaluate(
        // In the second, the ranks are the other way round.
        ([[one, other], rank]) => window.two({ room: one, rank }, { room: other, rank: 1 - rank }),
        [rooms, i] as const,
      ),
    ),
  );
  expect(said.map((groups) => groups.map(({ rank, sum }) => [rank, sum]))).toEqual([
    [
      [0, 3],
      [1, 3],
    ],
    [
      [1, 3],
      [0, 3],
    ],
  ]);
  await tabs[0].context().close();
});

test('a wish that contradicts the room is refused with a sentence', { timeout: 60_000 }, async () => {
  const { tabs } = await twoTabs();
  const refusal = (wishes: Wishes): Promise<string> =>
    tabs[0].evaluate((wish) => window.cycle(wish, 1).then(String, String), wishes);
  const room = createRoom();
  expect(await refusal({ room, worldSize: 3 })).toMatch(/^SignalingError: This room's world size is 2, not 3/);
  expect(await refusal({ room, rank: 2 })).toMatch(/^SignalingError: There is no rank 2 in a world of 2/);
  expect(await refusal({ room, worldSize: 2, rank: 2 })).toMatch(/^UsageError: There is no rank 2 in a world of 2/);
  expect(await refusal({ worldSize: 65 })).toMatch(/^UsageError: .*from 1 to 64, not 65/);
  await tabs[0].context().close();
});

test('two tabs of a page of its own form a process group and train one model', { timeout: 60_000 }, async () => {
  const context = await browser.newContext();
  await context.grantPermissions(['microphone']);
  const openTab = async () => {
    const page = await context.newPage();
    await page.goto(`${server.url}/test/tabs/library.html`);
    await page.waitForFunction(() => 'train' in window);
    return page;
  };
  const host = await openTab();
  const room = deferred<string>();
  await host.exposeFunction('onroom', room.resolve);
  const join = async () => {
    const code = await room.promise;
    return (await openTab()).evaluate((joined) => window.train(joined), code);
  };
  const results = await Promise.all([host.evaluate(() => window.train(null)), join()]);

  expect(results.map(({ rank, worldSize }) => [rank, worldSize])).toEqual([
    [0, 2],
    [1, 2],
  ]);
  expect(results[1].parameters).toEqual(results[0].parameters);
  expect(results[1].losses).toEqual(results[0].losses);
  // Flat order is reversed: bias, then kernel. The model on the GPU holds what DDP keeps.
  for (const { parameters, model, buckets } of results) {
    expect(model.toReversed()).toEqual(parameters);
    expect(buckets).toBe(2);
  }
  expect(results[0].parameters[0]).toBeCloseTo(-2, 1);
  expect(results[0].parameters[1]).toBeCloseTo(3, 1);
});
