/** In real tabs, closes all tabs of a room and continues its run from a checkpoint. */
import { expect, test, vi } from 'vitest';
import { type Tab, worldOfFile } from '../harness/world.ts';

vi.setConfig({ testTimeout: 120_000 });

const world = await worldOfFile();

/** The run has many more steps than are taken until a busy test has closed its tabs. */
const MAX_STEPS = 160;
const HASH_EVERY = 4;

function steps(tab: Tab) {
  return tab.events.filter((event) => event.type === 'step');
}

function savesOf(tab: Tab): number {
  return tab.events.filter(({ type }) => type === 'saved').length;
}

const button = (tab: Tab, name: string | RegExp) => tab.page.getByRole('button', { name, exact: true });

test("a returning tab's latest checkpoint is continued together with a new tab, and each sample is used once", async () => {
  const room = world.createRoom({ maxSteps: MAX_STEPS, batchSize: 4, hashEvery: HASH_EVERY }, 2, { min: 1, max: 8 });
  const [ann, ben] = await Promise.all(['ann', 'ben'].map((name) => world.join(room, name)));
  // Each tab has a browser of its own, so only ann's own checkpoint can be continued there. A file
  // has a size before it is whole, so the event counts.
  await expect.poll(() => savesOf(ann!), { timeout: 60_000 }).toBeGreaterThan(0);
  await Promise.all([ann!.page.close(), ben!.page.close()]);

  const back = await world.open('?name=ann', { beside: ann! });
  await button(back, /^Continue digits\/mlp from step \d+$/).click();
  const { step: saved } = await back.event('checkpoint');
  expect(saved % HASH_EVERY).toBe(0);
  expect(saved).toBeGreaterThan(0);
  const cid = await world.join((await back.event('admitted')).room, 'cid');
  await back.event('room', ({ members }) => members.length === 2 && members.every(({ device }) => device !== null));
  await back.page.getByText(`The run continues from step ${saved}`).waitFor();
  await button(back, 'Start').click();

  const results = await Promise.all([back, cid].map(async (tab) => (await tab.event('finished')).result));
  expect(results.map((result) => [result.steps, result.worldSize])).toEqual([
    [MAX_STEPS, 2],
    [MAX_STEPS, 2],
  ]);
  expect(new Set(results.flatMap(({ stateHash }) => stateHash)).size).toBe(1);
  const history = [...steps(ann!).filter(({ step }) => step < saved), ...steps(back)];
  expect(history.map(({ step }) => step)).toEqual([...Array(MAX_STEPS).keys()]);
  let end = 0;
  for (const { epoch, offset, samples } of history) {
    expect([epoch, offset]).toEqual([0, end]);
    end += samples;
  }
  // A tab that joined later also has the losses of the steps before.
  expect(results[1]!.losses).toEqual(history.map(({ loss }) => loss));
  // After the run has finished, its checkpoint is not offered any more.
  await expect
    .poll(async () => {
      await back.page.goto(`http://localhost:${world.server.port}/`);
      await back.page.getByRole('link', { name: 'Start a room' }).waitFor();
      return button(back, /^Continue digits/).count();
    })
    .toBe(0);
});

test('only one tab of a browser saves checkpoints; when this tab is closed, another one saves them', async () => {
  const room = world.createRoom({ epochs: 1000, maxSteps: 100_000, hashEvery: HASH_EVERY }, 2, { min: 1, max: 8 });
  const ann = await world.join(room, 'ann');
  const ben = await world.join(room, 'ben', { beside: ann });
  const { step } = await Promise.race([ann, ben].map((tab) => tab.event('saved')));
  // If both tabs saved checkpoints, both would have saved this step by now.
  await Promise.all([ann, ben].map((tab) => tab.event('hashes', (event) => event.step >= step + HASH_EVERY)));
  expect([savesOf(ann), savesOf(ben)].toSorted((a, b) => a - b)).toEqual([0, 1]);
  const [saver, other] = savesOf(ann) > 0 ? [ann, ben] : [ben, ann];
  await saver.page.close();
  await other.event('saved');
});
