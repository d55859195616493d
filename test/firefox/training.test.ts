/**
 * Firefox and Chromium in one run. Firefox computes WebGPU with wgpu on lavapipe, Chromium with
 * Dawn on SwiftShader.
 */
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import { PATIENCE_MS } from '../tabs/harness/eventLog.ts';
import { OwnPage } from '../tabs/harness/ownPage.ts';
import { worldOfFile } from '../tabs/harness/world.ts';
import { describeInFirefox, Firefox } from './firefox.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 90_000 });

describeInFirefox('a Firefox tab with WebGPU', async () => {
  const world = await worldOfFile({}, { backend: 'webgpu' });
  let firefox: Firefox;
  beforeAll(async () => {
    firefox = await Firefox.start();
  });
  afterAll(() => firefox.close());

  // SwiftShader has no float16, so only Firefox multiplies in mixed precision.
  test('trains 30 steps in mixed precision with a Chromium tab in full precision, to states equal bit for bit', async () => {
    const room = world.createRoom({ maxSteps: 30, batchSize: 8, hashEvery: 10, precision: 'mixed' }, 2);
    const [fox, chromium] = await Promise.all([
      firefox.open(`${world.server.url}/#${room}?name=fox&auto`),
      world.join(room, 'chromium'),
    ]);
    const results = await Promise.all([fox, chromium].map(async (tab) => (await tab.event('finished')).result));
    const [{ stateHash, losses }] = results as [(typeof results)[number]];
    expect(new Set(stateHash).size).toBe(1);
    expect(losses.at(-1)).toBeLessThan(losses[0]! * 0.8);
    for (const result of results) {
      const transport = { webrtc: 1, server: 0, memory: 0 };
      const same = { stateHash, losses, worldSize: 2, steps: 30, backend: 'webgpu', transport };
      expect(result).toMatchObject(same);
    }
  });

  test('leaves a run when it is reloaded, returns, and then has the state of the other ranks', async () => {
    const room = world.createRoom({ epochs: 1000, batchSize: 8, hashEvery: 5 }, 2, { min: 1, max: 2 });
    const [fox, chromium] = await Promise.all([
      firefox.open(`${world.server.url}/#${room}?name=fox&auto`),
      world.join(room, 'chromium'),
    ]);
    await chromium.event('hashes', ({ hashes, agree }) => hashes.length === 2 && agree);
    await fox.page.reload();
    const { generation } = await chromium.event('generation', ({ worldSize }) => worldSize === 1);
    await chromium.event('generation', (next) => next.worldSize === 2 && next.generation > generation);
    const alone = chromium.events.filter(({ type }) => type === 'step').length;
    for (const tab of [chromium, fox]) {
      const { hashes } = await tab.event(
        'hashes',
        (event) => event.step > alone && event.hashes.length === 2 && event.agree,
      );
      expect(new Set(hashes).size).toBe(1);
    }
    await fox.page.close();
  });

  test('stays in its group while a worker of its page computes for 20 s', async () => {
    const own = await OwnPage.start('test/tabs/library/libraryWorker.html', 'start');
    const room = own.server.createRoom({ job: DEFAULT_JOB, startAt: 2 });
    const fox = await firefox.open(own.url);
    const chromium = await own.openTab(await own.openContext());
    const blockFor = (seconds: number): string =>
      `start(); ask({ do: 'block', room: '${room}', seconds: ${seconds} });`;
    await fox.page.evaluate(blockFor(20));
    await chromium.evaluate(blockFor(0));
    const patience = { timeout: PATIENCE_MS };
    const ended = `messages.find(({ type }) => type !== 'joined')`;
    const results = [
      await (await fox.page.waitForFunction(ended, patience)).jsonValue(),
      await (await chromium.waitForFunction(ended, undefined, patience)).jsonValue(),
    ];
    expect(results).toEqual([
      { type: 'computed', sum: 2 },
      { type: 'computed', sum: 2 },
    ]);
    await fox.page.close();
    await own.stop();
  });

  // Fails if Firefox no longer needs the help (Mozilla bug 1870699). Then delete
  // `speedUpMapAsync.ts`.
  test('maps buffers late unless empty command lists are submitted; Chromium needs none', async () => {
    const maps = await OwnPage.start('test/firefox/maps.html', 'measureMaps');
    const fox = await firefox.open(maps.url);
    await fox.page.waitForFunction('"measureMaps" in globalThis');
    const inFirefox = await fox.page.evaluate(() => measureMaps());
    const chromium = await maps.openTab(await maps.openContext());
    const inChromium = await chromium.evaluate(() => measureMaps());
    await maps.stop();
    console.log('Milliseconds per map in Firefox:', inFirefox, 'in Chromium:', inChromium);
    expect(inFirefox.isHelped).toBe(true);
    expect(inChromium.isHelped).toBe(false);
  });
});
