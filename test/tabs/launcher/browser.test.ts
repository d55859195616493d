/** Checks how the launcher starts browsers: their tabs, their features and their GPU. */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchBrowser } from '../../../launcher/browser/browser.ts';
import { startSignaling } from '../../../signaling/index.ts';

let browser: Browser;
beforeAll(async () => {
  browser = await launchBrowser();
});
afterAll(() => browser.close());

async function commandLineOf(one: Browser): Promise<string> {
  const cdp = await one.newBrowserCDPSession();
  return (await cdp.send('SystemInfo.getInfo')).commandLine;
}

test('the browser has no pages other than the open tab, not even hidden pages', async () => {
  await (await browser.newContext()).newPage();
  const cdp = await browser.newBrowserCDPSession();
  // An empty filter matches every kind of target, also hidden ones.
  const { targetInfos } = await cdp.send('Target.getTargets', { filter: [{}] });
  expect(targetInfos.map(({ url }) => url).filter((url) => url !== 'about:blank')).toEqual([]);
});

test('features that Playwright disables stay disabled when the launcher disables other features', async () => {
  const lists = [...(await commandLineOf(browser)).matchAll(/--disable-features=(\S+)/g)].map(([, list]) =>
    list!.split(','),
  );
  expect(lists.length).toBeGreaterThan(1);
  expect(lists.at(-1)).toEqual(expect.arrayContaining(lists.flat()));
});

test('the browser uses a GPU if the machine has one, and computes WebGPU in software if requested', async () => {
  const [auto, software] = await Promise.all([
    launchBrowser({ backend: 'auto' }),
    launchBrowser({ backend: 'auto', gpu: 'software' }),
  ]);
  expect(await commandLineOf(auto)).not.toContain('--use-webgpu-adapter');
  expect(await commandLineOf(software)).toContain('--use-webgpu-adapter=swiftshader');
  await Promise.all([auto.close(), software.close()]);
});

test('a browser for WebAssembly hides the GPU from pages, and rejects flags that enable a GPU', async () => {
  await expect(launchBrowser({ backend: 'wasm', gpu: 'software' })).rejects.toThrow(
    'Remove --gpu software, or choose --backend webgpu',
  );
  const server = await startSignaling();
  const wasm = await launchBrowser({ backend: 'wasm' });
  const page = await wasm.newPage();
  await page.goto(`http://localhost:${server.port}/healthz`);
  expect(await page.evaluate(() => navigator.gpu.requestAdapter())).toBeNull();
  await wasm.close();
  await server.close();
});
