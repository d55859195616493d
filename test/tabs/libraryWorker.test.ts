/** The library in workers of two tabs over WebRTC, also when a GPU, a worker or a tab is gone. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import type { FromProgram, Wish } from './libraryWorkerProgram.ts';
import { OwnPage } from './ownPage.ts';

let page: OwnPage;
beforeAll(async () => {
  page = await OwnPage.start('test/tabs/libraryWorker.html', 'start');
}, 120_000);
afterAll(() => page?.stop());

async function ask(tab: Page, wish: Wish): Promise<void> {
  await tab.evaluate((message) => {
    window.messages = [];
    window.ask(message);
  }, wish);
}

/** Resolves with the program's next message of one of these types. */
async function messageOf<Type extends FromProgram['type']>(
  tab: Page,
  ...types: Type[]
): Promise<Extract<FromProgram, { type: Type }>> {
  const found = await tab.waitForFunction(
    (wanted: string[]) => window.messages.find(({ type }) => wanted.includes(type)),
    types,
  );
  return (await found.jsonValue()) as Extract<FromProgram, { type: Type }>;
}

/** The programs of both tabs join a new room. */
async function join(tabs: readonly Page[], wishes: readonly Wish['do'][]): Promise<void> {
  const room = page.server.createRoom({ job: DEFAULT_JOB, startAt: 2 });
  await Promise.all(tabs.map((tab, i) => ask(tab, { do: wishes[i]!, room })));
  for (const tab of tabs) expect((await messageOf(tab, 'joined', 'rejected')).type).toBe('joined');
}

test(
  'the library trains in workers, and a group fails at once when its GPU, worker or tab is gone',
  { timeout: 90_000 },
  async () => {
    const context = await page.openContext();
    const tabs = [await page.openTab(context), await page.openTab(context)] as const;
    const [one, other] = tabs;
    for (const tab of tabs) await tab.evaluate(() => window.start(true));
    // The error takes 10 s.
    const unhosted = await page.openTab(context);
    await unhosted.evaluate(() => window.start(false));
    await ask(unhosted, { do: 'train', room: 'K7F-3QX' });

    await join(tabs, ['train', 'train']);
    const results = await Promise.all(tabs.map((tab) => messageOf(tab, 'trained')));
    expect(results[0]).toMatchObject({ route: 'direct', sum: 9 });
    expect(results[1]).toEqual(results[0]);
    expect(results[0]!.parameters[0]).toBeCloseTo(-2, 0);

    await join(tabs, ['lose', 'use']);
    const lost = await messageOf(one, 'failed');
    expect(lost).toMatchObject({ error: expect.stringMatching(/^DeviceError: The GPU was lost/) as string, sum: 9 });
    expect((await messageOf(other, 'failed')).error).toContain('The GPU was lost');

    const secondsToFailure = async (end: () => Promise<unknown>): Promise<number> => {
      await join(tabs, ['use', 'use']);
      const startedAt = performance.now();
      await end();
      expect((await messageOf(other, 'failed')).error).toMatch(/^PeerGoneError/);
      return (performance.now() - startedAt) / 1000;
    };
    // The browsers of the other ranks need 6 s to notice by themselves.
    expect(await secondsToFailure(() => one.evaluate(() => window.terminate()))).toBeLessThan(3);
    await one.evaluate(() => window.start(true));
    expect(await secondsToFailure(() => one.close())).toBeLessThan(3);

    expect((await messageOf(unhosted, 'rejected')).error).toMatch(
      /^UsageError: The page did not open connections.*Call hostWorker\(worker\) of peergrad\/worker/,
    );
    await context.close();
  },
);
