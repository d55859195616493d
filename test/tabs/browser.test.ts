/** What a browser of the launcher's runs beside its tabs. */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchBrowser } from '../../launcher/browser.ts';

let browser: Browser;
beforeAll(async () => {
  browser = await launchBrowser();
});
afterAll(() => browser.close());

test('no page of its own is made ready behind a tab', async () => {
  await (await browser.newContext()).newPage();
  const cdp = await browser.newBrowserCDPSession();
  // An empty filter is one that lets everything pass.
  const { targetInfos } = await cdp.send('Target.getTargets', { filter: [{}] });
  expect(targetInfos.map(({ url }) => url).filter((url) => url !== 'about:blank')).toEqual([]);
});

test('what Playwright switches off stays off', async () => {
  const cdp = await browser.newBrowserCDPSession();
  const { commandLine } = await cdp.send('SystemInfo.getInfo');
  const lists = [...commandLine.matchAll(/--disable-features=(\S+)/g)].map(([, list]) => list!.split(','));
  expect(lists.length).toBeGreaterThan(1);
  expect(lists.at(-1)).toEqual(expect.arrayContaining(lists.flat()));
});
