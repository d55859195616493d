/** The pages in a Firefox without WebGPU, as Firefox on Linux is by default. */
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { violationsOn } from '../tabs/harness/axe.ts';
import { worldOfFile } from '../tabs/harness/world.ts';
import { describeInFirefox, Firefox } from './firefox.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 90_000 });

describeInFirefox('a Firefox tab without WebGPU', async () => {
  const world = await worldOfFile();
  let firefox: Firefox;
  beforeAll(async () => {
    firefox = await Firefox.start({ 'dom.webgpu.enabled': false, 'webgl.disabled': true });
  });
  afterAll(() => firefox.close());

  test('checks its abilities, joins by a room code, and trains with WebAssembly to the same bits as a Chromium tab', async () => {
    const room = world.createRoom({ maxSteps: 20, batchSize: 8, hashEvery: 10 }, 2);
    const fox = await firefox.open(`${world.server.url}/`);
    expect(await violationsOn(fox.page)).toEqual([]);
    await fox.type('or type a code', room);
    await fox.press('Join');
    await fox.shows('WebGL finds no GPU either, so this tab computes with WebAssembly.');
    await fox.shows('can reach others');
    expect(await violationsOn(fox.page)).toEqual([]);
    await fox.type('Your name', 'fox');
    await fox.press('Join');
    const chromium = await world.join(room, 'chromium');
    const results = await Promise.all([fox, chromium].map(async (tab) => (await tab.event('finished')).result));
    const [{ stateHash, losses }] = results as [(typeof results)[number]];
    expect(new Set(stateHash).size).toBe(1);
    const transport = { webrtc: 1, server: 0, memory: 0 };
    for (const result of results) {
      expect(result).toMatchObject({ stateHash, losses, worldSize: 2, backend: 'wasm', transport });
    }
    expect(await violationsOn(fox.page)).toEqual([]);
  });

  test('can show the whole lesson without other tabs', async () => {
    const fox = await firefox.open(`${world.server.url}/#lesson`);
    await fox.shows('4 numbers each');
    expect(await violationsOn(fox.page)).toEqual([]);
    await fox.press('Next step');
    await fox.shows('step 1 of 6');
    await fox.press('All steps');
    await fox.shows('step 6 of 6');
    for (let turned = 2; turned <= 11; turned++) {
      await fox.page.keyboard.press('ArrowRight');
      await fox.shows(`${turned} of 11`);
    }
    await fox.shows('This is how tabs train');
  });

  test('shows a run even if the browser reports a language that does not exist', async () => {
    const fox = await firefox.open('about:blank');
    await fox.page.evaluateOnNewDocument(() => {
      Object.defineProperty(navigator, 'language', { value: 'C', configurable: true });
    });
    await fox.page.goto(`${world.server.url}/#simulated?ranks=4`);
    await fox.shows('Simulated: these 4 ranks do not exist.');
    // The page has replaced a language that Intl does not accept.
    expect(await fox.page.evaluate('navigator.language')).toBe('en');
  });

  test('says which WebAssembly feature is missing', async () => {
    const fox = await firefox.open('about:blank');
    await fox.page.evaluateOnNewDocument('WebAssembly.validate = () => false');
    await fox.page.goto(`${world.server.url}/#new`);
    await fox.shows('WebGL finds no GPU either, and WebAssembly lacks SIMD instructions.');
    await fox.page.evaluateOnNewDocument('delete globalThis.WebAssembly');
    await fox.page.reload();
    await fox.shows('WebGL finds no GPU either, and WebAssembly is missing or disabled.');
    expect(await violationsOn(fox.page)).toEqual([]);
  });
});
