/** SyncBatchNormalization on WebGPU: two tabs against one that has all samples. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { build } from 'vite';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchBrowser } from '../../launcher/browser.ts';
import { startSignaling, type SignalingServer } from '../../signaling/index.ts';
import { deferred } from '../../src/util/deferred.ts';

const PAGE = 'test/tabs/syncBatchNorm.html';

let dist: string;
let server: SignalingServer;
let browser: Browser;

beforeAll(async () => {
  dist = await mkdtemp(path.join(tmpdir(), 'peergrad-syncbn-'));
  const root = path.resolve(import.meta.dirname, '../..');
  await build({
    ...{ root, logLevel: 'error' },
    build: { outDir: dist, rolldownOptions: { input: path.join(root, PAGE) } },
  });
  server = await startSignaling({ dist });
  browser = await launchBrowser();
}, 120_000);

afterAll(async () => {
  await browser?.close();
  await server?.close();
  await rm(dist, { recursive: true });
});

function expectClose(actual: readonly number[], expected: readonly number[]): void {
  expect(actual.length).toBe(expected.length);
  for (const [i, value] of actual.entries()) expect(Math.abs(value - expected[i]!)).toBeLessThan(1e-4);
}

test('two tabs train what one with all samples trains', { timeout: 120_000 }, async () => {
  const context = await browser.newContext();
  await context.grantPermissions(['microphone']);
  const openTab = async (): Promise<Page> => {
    const page = await context.newPage();
    await page.goto(`${server.url}/${PAGE}`);
    await page.waitForFunction(() => 'trainNormalized' in window);
    return page;
  };
  const host = await openTab();
  const room = deferred<string>();
  await host.exposeFunction('onroom', room.resolve);
  const join = async () => {
    const code = await room.promise;
    return (await openTab()).evaluate((joined) => window.trainNormalized(joined), code);
  };
  const results = await Promise.all([host.evaluate(() => window.trainNormalized(null)), join()]);

  for (const { backend, together, alone, leaked } of results) {
    expect(backend).toBe('webgpu');
    expect(leaked).toBe(0);
    expectClose(together.trained, alone.trained);
    expectClose(together.averages, alone.averages);
    expect(together.averages).toEqual(results[0].together.averages);
  }
});
