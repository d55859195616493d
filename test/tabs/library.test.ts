/** The library without our app: two tabs of a page of somebody's own train with DistributedDataParallel. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Browser } from 'playwright-core';
import { build } from 'vite';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchBrowser } from '../../launcher/browser.ts';
import { deferred } from '../../src/util/deferred.ts';
import { startSignaling, type SignalingServer } from '../../signaling/index.ts';

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
