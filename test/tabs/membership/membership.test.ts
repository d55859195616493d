/** Ranks of tabs, and tabs that are closed during a run of a fixed world size. */
import { describe, expect, test, vi } from 'vitest';
import { type Tab, worldOfFile } from '../harness/world.ts';

vi.setConfig({ testTimeout: 150_000 });

const world = await worldOfFile();

test('tabs have the ranks that their URLs request, and know their local rank', async () => {
  const room = world.createRoom({ maxSteps: 1, batchSize: 4 }, 3);
  const lab = await world.open('');
  // The tabs open at the same time, as under a launcher, so no earlier tab has created the
  // browser's id.
  const tabs = await Promise.all([
    world.open(`#${room}?name=ann&auto&rank=2`, { beside: lab }),
    world.open(`#${room}?name=ben&auto&rank=0`, { beside: lab }),
    world.open(`#${room}?name=cid&auto&rank=1`),
  ]);
  const epochs = await Promise.all(tabs.map((tab) => tab.event('generation')));
  expect(epochs).toMatchObject([
    { rank: 2, localRank: 1, localWorldSize: 2 },
    { rank: 0, localRank: 0, localWorldSize: 2 },
    { rank: 1, localRank: 0, localWorldSize: 1 },
  ]);
  await Promise.all(tabs.map((tab) => tab.event('finished')));
});

describe('a tab', () => {
  test.each([
    ['while training', (tab: Tab) => tab.event('step', ({ step }) => step === 2)],
    ['during the warm-up of the model', (tab: Tab) => tab.event('warmup')],
    ['while linking', (tab: Tab) => tab.event('state', ({ state }) => state === 'LINKING')],
  ])(
    'that is closed %s ends the run; the other tabs show an error that names this tab, and can start again',
    async (_when, moment) => {
      const room = world.createRoom({ epochs: 100 }, 3);
      const [a, b, c] = await Promise.all(['ann', 'ben', 'cid'].map((name) => world.join(room, name)));
      await moment(c!);
      await c!.page.close();
      for (const tab of [a!, b!]) {
        const { message, fatal } = await tab.event('failed');
        expect(message).toMatch(/cid/);
        expect(fatal).toBe(false);
        // The page also shows the error.
        await tab.page.getByText(message).first().waitFor();
        expect((await tab.event('state', ({ state, generation }) => state === 'WAITING' && generation > 0)).state).toBe(
          'WAITING',
        );
      }
    },
  );
});
