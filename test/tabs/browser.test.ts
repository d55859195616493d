/** Features of the launcher's browsers. */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchBrowser } from '../../launcher/browser/browser.ts';
import { startSignaling } from '../../signaling/index.ts';

let browser: Browser;
beforeAll(async () => {
  browser = await launchBrowser();
});
afterAll(() => browser.close());

async function commandLineOf(one: Browser): Promise<string> {
  const cdp = await one.newBrowserCDPSession();
  return (await cdp.send('SystemInfo.getInfo')).commandLine;
}

test('the browser prepares no page of its own behind a tab', async () => {
  await (await browser.newContext()).newPage();
  const cdp = await browser.newBrowserCDPSession();
  // An empty filter matches everything.
  const { targetInfos } = await cdp.send('Target.getTargets', { filter: [{}] });
  expect(targetInfos.map(({ url }) => url).filter((url) => url !== 'about:blank')).toEqual([]);
});

test('features that Playwright disables stay disabled', async () => {
  const lists = [...(await commandLineOf(browser)).matchAll(/--disable-features=(\S+)/g)].map(([, list]) =>
    list!.split(','),
  );
  expect(lists.length).toBeGreaterThan(1);
  expect(lists.at(-1)).toEqual(expect.arrayContaining(lists.flat()));
});

test('the browser uses a GPU if there is one, and computes WebGPU in software on request', async () => {
  const [auto, software] = await Promise.all([
    launchBrowser({ backend: 'auto' }),
    launchBrowser({ backend: 'auto', gpu: 'software' }),
  ]);
  expect(await commandLineOf(auto)).not.toContain('--use-webgpu-adapter');
  expect(await commandLineOf(software)).toContain('--use-webgpu-adapter=swiftshader');
  await Promise.all([auto.close(), software.close()]);
});

test('for WebAssembly no page finds a GPU, and flags that ask for one are rejected', async () => {
  await expect(launchBrowser({ backend: 'wasm', gpu: 'software' })).rejects.toThrow('remove --gpu software');
  const server = await startSignaling();
  const wasm = await launchBrowser({ backend: 'wasm' });
  const page = await wasm.newPage();
  await page.goto(`http://localhost:${server.port}/healthz`);
  expect(await page.evaluate(() => navigator.gpu.requestAdapter())).toBeNull();
  await wasm.close();
  await server.close();
});
