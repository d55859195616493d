/**
 * Tests the link contract between two real tabs: over simple-peer on the page and in a worker, and
 * over a message port from the broker.
 */
import type { Browser, Page } from 'playwright-core';
import { createServer, type ViteDevServer } from 'vite';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { launchBrowser } from '../../../launcher/browser/browser.ts';
import { LINK_CASES } from '../../transport/linkCompliance.ts';

let server: ViteDevServer;
let browser: Browser;
let alice: Page;
let bob: Page;

beforeAll(async () => {
  server = await createServer({ logLevel: 'error', server: { port: 0, host: '127.0.0.1', hmr: false, watch: null } });
  await server.listen();
  browser = await launchBrowser({});
  const context = await browser.newContext();
  const openTab = async (): Promise<Page> => {
    const page = await context.newPage();
    await page.goto(`${server.resolvedUrls!.local[0]}test/tabs/links/linkHarness.html`);
    await page.waitForFunction(() => 'openEnd' in window);
    return page;
  };
  // The tabs load one after the other, because Vite bundles simple-peer during the first load.
  alice = await openTab();
  bob = await openTab();
}, 60_000);

afterAll(async () => {
  await browser?.close();
  await server?.close();
});

describe.each([
  'WebRTC, on the page',
  'WebRTC, in a worker',
  'WebRTC, in a worker by way of the page',
  'four WebRTC connections',
  'a port',
] as const)('a link over %s', (by) => {
  test.each(LINK_CASES.map(({ name }) => name))('%s', async (name) => {
    // Bob's tab listens before Alice's tab sends its offer, because a BroadcastChannel does not
    // store messages.
    for (const [tab, end] of [
      [bob, 'bob'],
      [alice, 'alice'],
    ] as const) {
      await tab.evaluate((given) => window.openEnd(...given), [name, end, by] as const);
    }
    const ends = [bob, alice].map((tab) => tab.evaluate(() => window.endDone()));
    await expect(Promise.all(ends)).resolves.toHaveLength(2);
    await Promise.all([bob, alice].map((tab) => tab.evaluate(() => window.closeEnd())));
  });
});
