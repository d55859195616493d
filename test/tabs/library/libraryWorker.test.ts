/** The library in workers of two tabs over WebRTC, also when a GPU, a worker or a tab is gone. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { DEFAULT_JOB } from '../../../src/spec/job.ts';
import type { FromProgram, ProgramTask } from './libraryWorkerProgram.ts';
import { OwnPage } from '../harness/ownPage.ts';

let page: OwnPage;
beforeAll(async () => {
  page = await OwnPage.start('test/tabs/library/libraryWorker.html', 'start');
}, 120_000);
afterAll(() => page?.stop());

async function ask(tab: Page, task: ProgramTask): Promise<void> {
  await tab.evaluate((message) => {
    window.messages = [];
    window.ask(message);
  }, task);
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
async function join(tabs: readonly Page[], tasks: readonly ProgramTask['do'][]): Promise<void> {
  const room = page.server.createRoom({ job: DEFAULT_JOB, startAt: 2 });
  await Promise.all(tabs.map((tab, i) => ask(tab, { do: tasks[i]!, room })));
  for (const tab of tabs) expect((await messageOf(tab, 'joined', 'rejected')).type).toBe('joined');
}

test(
  'the library trains in workers; a group fails when a GPU, a worker or a tab of the group is gone',
  { timeout: 90_000 },
  async () => {
    const context = await page.openContext();
    const tabs = [await page.openTab(context), await page.openTab(context)] as const;
    const [one, other] = tabs;
    for (const tab of tabs) await tab.evaluate(() => window.start());

    await join(tabs, ['train', 'train']);
    const results = await Promise.all(tabs.map((tab) => messageOf(tab, 'trained')));
    expect(results[0]).toMatchObject({ route: 'direct', sum: 9 });
    expect(results[1]).toEqual(results[0]);
    expect(results[0]!.parameters[0]).toBeCloseTo(-2, 0);

    await join(tabs, ['lose', 'use']);
    const lost = await messageOf(one, 'failed');
    expect(lost).toMatchObject({ error: expect.stringMatching(/^DeviceError: The GPU was lost/) as string, sum: 9 });
    expect((await messageOf(other, 'failed')).error).toContain('The GPU was lost');

    const failureAfter = async (end: () => Promise<unknown>): Promise<string> => {
      await join(tabs, ['use', 'use']);
      await end();
      return (await messageOf(other, 'failed')).error;
    };
    expect(await failureAfter(() => one.evaluate(() => window.terminate()))).toMatch(
      /^PeerGoneError: Rank \d .*(left|lost its link)/,
    );
    await one.evaluate(() => window.start());
    // The worker of a closed page may end before it has sent the reason.
    expect(await failureAfter(() => one.close())).toMatch(
      /^PeerGoneError: Rank \d (is gone: its page was closed\.$|.*(left|lost its link))/,
    );
    await context.close();
  },
);
