/**
 * The library without peergrad's app: two tabs of a page that imports it train with
 * DistributedDataParallel and Trainer.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { DEFAULT_JOB } from '../../../src/spec/job.ts';
import type { Wishes } from './library.ts';
import { OwnPage } from '../harness/ownPage.ts';

let page: OwnPage;
beforeAll(async () => {
  page = await OwnPage.start('test/tabs/library/library.html', 'train');
}, 120_000);
afterAll(() => page?.stop());

test(
  "Trainer writes the room's code into the first tab's URL, and other tabs join with this URL",
  { timeout: 60_000 },
  async () => {
    const context = await page.openContext();
    const first = await page.openTab(context);
    const fitted = first.evaluate(() => window.fit(2));
    await first.waitForFunction(() => location.hash !== '');
    const second = await page.openTab(context, first.url());
    const [a, b] = await Promise.all([fitted, second.evaluate(() => window.fit(2))]);
    expect(b).toEqual(a);
    expect(a.weights[0]).toBeCloseTo(3, 1);
    expect(a.weights[1]).toBeCloseTo(-2, 1);
    await context.close();
  },
);

const createRoom = (): string => page.server.createRoom({ job: DEFAULT_JOB, startAt: 2 });

test('a group can be created and destroyed repeatedly in one room', { timeout: 60_000 }, async () => {
  const {
    tabs: [a, b],
    opened,
  } = await page.openTwoTabs();
  // The tab that opens the room would be rank 0 by default, but requests rank 1.
  const ofA = { rank: 1, worldSize: 2, localRank: 1, localWorldSize: 2, sum: 3 };
  const ofB = { rank: 0, worldSize: 2, localRank: 0, localWorldSize: 2, sum: 3 };
  const first = a.evaluate(() => window.cycle({ worldSize: 2, rank: 1 }, 1));
  const room = await opened;
  expect(await b.evaluate((code) => window.cycle({ room: code, rank: 0 }, 1), room)).toEqual([ofB]);
  expect(await first).toEqual([ofA]);
  // A tab may join the room again before the other tab has left it.
  const again = await Promise.all([
    a.evaluate((code) => window.cycle({ room: code, rank: 1, worldSize: 2 }, 5), room),
    b.evaluate((code) => window.cycle({ room: code, rank: 0 }, 5), room),
  ]);
  expect(again).toEqual([Array.from({ length: 5 }, () => ofA), Array.from({ length: 5 }, () => ofB)]);
  await a.context().close();
});

test('a page can have two process groups at the same time', { timeout: 60_000 }, async () => {
  const { tabs } = await page.openTwoTabs();
  const rooms = [createRoom(), createRoom()] as const;
  const reports = await Promise.all(
    tabs.map((tab, i) =>
      tab.evaluate(
        // In the second group, the ranks are reversed.
        ([[one, other], rank]) => window.two({ room: one, rank }, { room: other, rank: 1 - rank }),
        [rooms, i] as const,
      ),
    ),
  );
  expect(reports.map((groups) => groups.map(({ rank, sum }) => [rank, sum]))).toEqual([
    [
      [0, 3],
      [1, 3],
    ],
    [
      [1, 3],
      [0, 3],
    ],
  ]);
  await tabs[0].context().close();
});

test('a request that contradicts the room is rejected with an error', { timeout: 60_000 }, async () => {
  const { tabs } = await page.openTwoTabs();
  const refusal = (wishes: Wishes): Promise<string> =>
    tabs[0].evaluate((wish) => window.cycle(wish, 1).then(String, String), wishes);
  const room = createRoom();
  expect(await refusal({ room, worldSize: 3 })).toMatch(/^SignalingError: This room's world size is 2, not 3/);
  expect(await refusal({ room, rank: 2 })).toMatch(/^SignalingError: There is no rank 2 in a world of 2/);
  expect(await refusal({ room, worldSize: 2, rank: 2 })).toMatch(/^UsageError: There is no rank 2 in a world of 2/);
  expect(await refusal({ worldSize: 257 })).toMatch(
    /^UsageError: The world size is 257\. Pass a whole number from 1 to 256/,
  );
  expect(await refusal({ room, rank: 256 })).toBe('UsageError: There is no rank 256. Pass a rank from 0 to 255.');
  await tabs[0].context().close();
});

test(
  'two tabs of a page that uses the library form a process group and train one model',
  { timeout: 60_000 },
  async () => {
    const {
      tabs: [host, guest],
      opened,
    } = await page.openTwoTabs();
    const results = await Promise.all([
      host.evaluate(() => window.train(null)),
      opened.then((room) => guest.evaluate((code) => window.train(code), room)),
    ]);

    expect(results.map(({ rank, worldSize }) => [rank, worldSize])).toEqual([
      [0, 2],
      [1, 2],
    ]);
    expect(results.map(({ route }) => route)).toEqual(['memory', 'memory']);
    expect(results[1].parameters).toEqual(results[0].parameters);
    expect(results[1].losses).toEqual(results[0].losses);
    // DDP's flat parameters have the reverse order: bias, then kernel. The model on the GPU has the
    // same values.
    for (const { parameters, model, buckets } of results) {
      expect(model.toReversed()).toEqual(parameters);
      expect(buckets).toBe(2);
    }
    expect(results[0].parameters[0]).toBeCloseTo(-2, 1);
    expect(results[0].parameters[1]).toBeCloseTo(3, 1);
  },
);

test('<peergrad-room> shows a room until all ranks are present, and shows uncaught errors', async () => {
  const context = await page.openContext();
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  const tab = await page.openTab(context);
  const set = (values: object): Promise<void> =>
    tab.evaluate((fields) => void Object.assign(document.querySelector('peergrad-room')!, fields), values);
  const text = (): Promise<string> => tab.locator('peergrad-room').evaluate((room) => room.shadowRoot!.textContent);
  await tab.evaluate(() => document.body.append(document.createElement('peergrad-room')));
  expect(await text()).toContain('Connecting to the room …');

  await set({ room: 'K7F3QX', present: 1, worldSize: 3 });
  const link = `${page.url}#K7F3QX`;
  expect(await tab.getByRole('link').getAttribute('href')).toBe(link);
  expect(await tab.getByRole('img', { name: `QR code of ${link}` }).isVisible()).toBe(true);
  expect(await tab.getByRole('region', { name: 'Room K7F-3QX' }).getByRole('status').innerText()).toBe(
    '1 of 3 ranks is present',
  );
  await tab.getByRole('button', { name: 'Copy the link' }).click();
  await tab.getByText('Copied ✓').waitFor();
  expect(await tab.evaluate(() => navigator.clipboard.readText())).toBe(link);

  await set({ link: 'https://train.example/#K7F3QX', lang: 'zh' });
  expect(await tab.getByRole('link').innerText()).toBe('https://train.example/#K7F3QX');
  expect(await text()).not.toContain('只能在这台机器上打开');
  await context.clearPermissions();
  await tab.evaluate(() => Object.defineProperty(navigator, 'clipboard', { value: undefined }));
  await tab.getByRole('button', { name: '复制链接' }).click();
  await tab.getByText('请手动复制选中的链接').waitFor();
  expect(await tab.evaluate(() => getSelection()!.toString())).toBe('https://train.example/#K7F3QX');

  await set({ received: 0.345 });
  await tab.getByText('正在接收模型，34 %').waitFor();
  await tab.evaluate(() => document.querySelector('peergrad-room')!.handlers.onprogress(9, 9));
  expect(await text()).not.toContain('正在接收模型');

  await set({ present: 3 });
  expect(await tab.getByRole('link').isVisible()).toBe(false);
  // A tab that is closed after the training does not move the page's contents.
  await set({ present: 2 });
  expect(await tab.getByRole('link').isVisible()).toBe(false);

  await tab.evaluate(() => {
    void Promise.reject(new Error('of the page'));
    void window.cycle({ room: 'no code' }, 1);
  });
  const alert = tab.getByRole('alert');
  await alert.getByText('"no code" is not a room code.').waitFor();
  await tab.evaluate(() => document.querySelector('peergrad-room')!.handlers.onroom('K7F3QX'));
  expect(await alert.isVisible()).toBe(false);
  await context.close();
});
