/** Mistakes of users in real tabs: the page shows a clear error for each, and nothing hangs. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { networkInterfaces, tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import type { FlightRecording } from '../../../src/protocol/flightRecording.ts';
import { type Tab, World } from '../harness/world.ts';

vi.setConfig({ testTimeout: 90_000 });

let data: string;
let world: World;

/** Returns IDX files with `count` blank images and with the label 0 for each. */
function idxPair(count: number): [images: Uint8Array, labels: Uint8Array] {
  const images = new Uint8Array(16 + count * 784);
  const labels = new Uint8Array(8 + count);
  const view = new DataView(images.buffer);
  [0x803, count, 28, 28].forEach((word, i) => view.setUint32(i * 4, word));
  [0x801, count].forEach((word, i) => new DataView(labels.buffer).setUint32(i * 4, word));
  return [images, labels];
}

beforeAll(async () => {
  data = await mkdtemp(path.join(tmpdir(), 'peergrad-data-'));
  const [images, labels] = idxPair(50);
  await writeFile(path.join(data, 't10k-images-idx3-ubyte'), images.subarray(0, 5000));
  await writeFile(path.join(data, 't10k-labels-idx1-ubyte'), labels);
  world = await World.start({ data, host: '0.0.0.0' });
}, 120_000);
afterEach(() => world.reset());
afterAll(async () => {
  await world.stop();
  await rm(data, { recursive: true });
});

const shows = (tab: Tab, text: string | RegExp): Promise<void> => tab.page.getByText(text).first().waitFor();

async function failure(tab: Tab, fatal: boolean): Promise<string> {
  const event = await tab.event('failed');
  expect(event.fatal).toBe(fatal);
  expect(event.message).not.toContain('\n');
  await shows(tab, event.message);
  return event.message;
}

describe('problems:', () => {
  test('a page whose script does not load tries again, and can be reloaded', async () => {
    const { page } = await world.open('');
    const missing = page.getByText('A part of this page did not load');
    await page.route(/\/assets\/main-[^/]*\.js$/, (route) => route.abort());
    const address = page.url();
    await page.goto('about:blank');
    await page.goto(address);
    await missing.waitFor();
    // It has loaded itself again, and waits longer now.
    await page.waitForEvent('load');
    await missing.waitFor();
    await page.unrouteAll();
    await page.getByRole('link', { name: 'reload it now' }).click();
    await expect.poll(() => page.getByRole('heading', { level: 1 }).count()).toBe(1);
  });

  test('an error names an unknown room code', async () => {
    expect(await failure(await world.join('ZZZZZZ', 'ann'), true)).toMatch(/ZZZ-?ZZZ/);
  });

  test('an error tells a newcomer that the room is training', async () => {
    const room = world.createRoom({ model: 'cnn', epochs: 100 }, 1);
    const first = await world.join(room, 'ann');
    await first.event('step');
    expect(await failure(await world.join(room, 'ben'), true)).toMatch(/training|running/);
  });

  test('an error says that another tab has the requested rank, or that this rank does not exist', async () => {
    const room = world.createRoom({}, 2);
    const ann = await world.open(`#${room}?name=ann&auto&rank=1`);
    await ann.event('admitted');
    const ben = await world.open(`#${room}?name=ben&auto&rank=1`);
    expect(await failure(ben, true)).toMatch(/^ann has rank 1 already/);
    const cid = await world.open(`#${room}?name=cid&auto&rank=one`);
    expect(await failure(cid, true)).toMatch(/rank/);
  });

  test('an error names a truncated data file', async () => {
    const room = world.createRoom({ job: 'mnist', data: { kind: 'url', url: '/data/' } }, 1);
    expect(await failure(await world.join(room, 'ann'), false)).toMatch(/t10k-images-idx3-ubyte/);
  });

  test('an error names the URL of missing data', async () => {
    const room = world.createRoom({ job: 'mnist', data: { kind: 'url', url: '/nothing/' } }, 1);
    expect(await failure(await world.join(room, 'ann'), false)).toMatch(/\/nothing\//);
  });

  // This machine's network address; undefined without a network.
  const address = Object.values(networkInterfaces())
    .flat()
    .find((each) => each && !each.internal && each.family === 'IPv4')?.address;
  test.skipIf(address === undefined)(
    'a page over plain http trains with WebAssembly in one thread, with the same bits as a page with several threads',
    async () => {
      const job = { model: 'cnn', maxSteps: 2, batchSize: 32 } as const;
      const tab = await world.open(`#${world.createRoom(job, 1)}?name=ann`, {
        origin: `http://${address}:${world.server.port}`,
      });
      await shows(tab, /https/);
      await tab.page.getByRole('button', { name: 'Join' }).click();
      const { device, note } = await tab.event('device');
      expect(note).toMatch(/not a secure context\. Open it over https.* It uses one of \d+ cores\./);
      expect(device.backend).toBe('wasm');
      const isolated = await world.join(world.createRoom(job, 1), 'ben');
      expect((await isolated.event('device')).note).not.toMatch(/cores/);
      expect(await isolated.page.evaluate(() => crossOriginIsolated)).toBe(true);
      const results = await Promise.all([tab, isolated].map(async (one) => (await one.event('finished')).result));
      expect(results[0]!.stateHash).toEqual(results[1]!.stateHash);
      expect([...tab.violations, ...isolated.violations]).toEqual([]);
    },
  );

  test('a run starts when the user has chosen valid files', async () => {
    const room = world.createRoom({ job: 'mnist', batchSize: 8, maxSteps: 2, data: { kind: 'files' } }, 1);
    const tab = await world.open(`#${room}?name=ann`);
    const folder = await mkdtemp(path.join(tmpdir(), 'peergrad-files-'));
    const [images, labels] = idxPair(40);
    const files = [path.join(folder, 't10k-images-idx3-ubyte'), path.join(folder, 't10k-labels-idx1-ubyte')];
    await writeFile(files[0]!, images);
    await writeFile(files[1]!, labels);
    await tab.page.getByRole('button', { name: 'Join' }).click();
    await tab.page.locator('input[type=file]').setInputFiles(files);
    const { result } = await tab.event('finished');
    expect(result.steps).toBe(2);
    await rm(folder, { recursive: true });
  });
});

describe('a server that stops', () => {
  test('is reported to tabs that wait, and does not interrupt tabs that train', async () => {
    const lonely = await World.start();
    try {
      const waiting = await lonely.join(lonely.createRoom({}, 2), 'ann');
      const room = lonely.createRoom({ maxSteps: 100 }, 2);
      const training = await Promise.all(['ben', 'cid'].map((name) => lonely.join(room, name)));
      await training[0]!.event('step');
      await lonely.server.close();
      await waiting.event('state', ({ isServerAway }) => isServerAway);
      const results = await Promise.all(training.map(async (tab) => (await tab.event('finished')).result));
      expect(results.map(({ steps }) => steps)).toEqual([100, 100]);
      expect(new Set(results.flatMap(({ stateHash }) => stateHash)).size).toBe(1);
    } finally {
      await lonely.stop();
    }
  });
});

describe('a tab', () => {
  const ways: Record<string, (tab: Tab) => Promise<unknown>> = {
    'was closed': (tab) => tab.page.close(),
    'shows another page': (tab) => tab.page.goto('about:blank'),
    'shows another page of peergrad': (tab) => tab.page.evaluate(() => (location.hash = '#new')),
    // A crashed page does not respond any more, so the promise of goto is not awaited.
    'has crashed': (tab) => Promise.resolve(void tab.page.goto('chrome://crash').catch(() => {})),
  };

  test.each(Object.entries(ways))('leaves the room immediately if it %s', async (_, go) => {
    const room = world.createRoom({}, 3);
    const ann = await world.join(room, 'ann');
    await ann.event('admitted');
    const ben = await world.join(room, 'ben');
    const { member } = await ben.event('admitted');
    await go(ann);
    // A member whose connection is lost stays in the room for a while, but is no longer its host.
    const { members } = await ben.event('room', ({ hosts }) => hosts[0] === member);
    expect(members.map(({ name }) => name)).toEqual(['ben']);
  });
});

/** Clicks the page's button and returns the recording that it downloads. */
async function download(tab: Tab): Promise<FlightRecording> {
  const button = tab.page.getByRole('button', { name: 'Download flight recording' });
  const [file] = await Promise.all([tab.page.waitForEvent('download'), button.click()]);
  const recording = JSON.parse(await readFile(await file.path(), 'utf8')) as FlightRecording;
  expect(recording).toMatchObject({ format: 'peergrad-flight-recording', version: 3, worldSize: 2 });
  expect(file.suggestedFilename()).toBe(`peergrad-flight-rank-${recording.rank}.json`);
  return recording;
}

/**
 * The all-reduce of the gradients of a step. It need not be the last record: the exchange of
 * telemetry is recorded too.
 */
const GRADIENTS = {
  group: 0,
  kind: 'collective',
  op: 'allReduce',
  call: expect.stringMatching(/^allReduce\(\d+ float32/),
};

describe('a flight recording', () => {
  test('is available after a run, from each rank', async () => {
    const room = world.createRoom({ maxSteps: 3, batchSize: 4 }, 2);
    const tabs = await Promise.all(['ann', 'ben'].map((name) => world.join(room, name)));
    await Promise.all(tabs.map((tab) => tab.event('finished')));
    for (const tab of tabs) {
      const { rank, records } = await download(tab);
      expect(rank).toBe((await tab.event('generation')).rank);
      expect(records).toContainEqual(expect.objectContaining(GRADIENTS));
      expect(new Set(records.map(({ state }) => state))).toEqual(new Set(['completed']));
    }
  });

  test('is available after another tab has left', async () => {
    const room = world.createRoom({ epochs: 100, hashEvery: 2000 }, 2);
    const [ann, ben] = await Promise.all(['ann', 'ben'].map((name) => world.join(room, name)));
    await ann!.event('step', ({ step }) => step === 2);
    await ben!.page.close();
    await failure(ann!, false);
    expect((await download(ann!)).records).toContainEqual(expect.objectContaining(GRADIENTS));
  });

  test('is available after the run has failed because another tab left while the server was stopped', async () => {
    const lonely = await World.start();
    try {
      const room = lonely.createRoom({ epochs: 100, hashEvery: 2000 }, 2);
      const [ann, ben] = await Promise.all(['ann', 'ben'].map((name) => lonely.join(room, name)));
      await ann!.event('step', ({ step }) => step === 2);
      await lonely.server.close();
      await ben!.page.close();
      await failure(ann!, true);
      expect((await download(ann!)).records).toContainEqual(expect.objectContaining(GRADIENTS));
    } finally {
      await lonely.stop();
    }
  });
});
