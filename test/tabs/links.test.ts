/** The link contract over simple-peer, each end in a real tab. */
import type { Browser, Page } from 'playwright-core';
import { createServer, type ViteDevServer } from 'vite';
import { afterAll, beforeAll, test } from 'vitest';
import { launchBrowser } from '../../launcher/browser.ts';
import { LINK_CASES } from '../transport/linkCompliance.ts';

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
    await page.goto(`${server.resolvedUrls!.local[0]}test/tabs/linkHarness.html`);
    await page.waitForFunction(() => 'runCase' in window);
    return page;
  };
  // One after the other: the first load makes Vite bundle simple-peer.
  alice = await openTab();
  bob = await openTab();
}, 60_000);

afterAll(async () => {
  await browser?.close();
  await server?.close();
});

test.each(LINK_CASES)('$name', async ({ name }) => {
  // Bob listens before Alice's offer goes out.
  const bobDone = bob.evaluate((title) => window.runCase(title, 'bob'), name);
  await Promise.all([bobDone, alice.evaluate((title) => window.runCase(title, 'alice'), name)]);
});
