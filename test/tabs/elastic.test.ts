/** Ranks that come and go, in real tabs. */
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { type Tab, World } from './world.ts';

vi.setConfig({ testTimeout: 150_000 });

let world: World;
beforeAll(async () => {
  world = await World.start();
}, 120_000);
afterEach(() => world.reset());
afterAll(() => world.stop());

const NODES = { min: 1, max: 8 };

/** What a tab saw of its run's steps. */
function steps(tab: Tab) {
  return tab.events.filter((event) => event.type === 'step');
}

/** Every step a tab saw follows the one before, and their windows tile the passes. */
function expectEachSampleOnce(tab: Tab, passSize: number): void {
  for (const [i, { step, dataEpoch, offset, samples }] of steps(tab).entries()) {
    const before = steps(tab)[i - 1];
    if (!before) continue;
    expect(step).toBe(before.step + 1);
    const end = before.offset + before.samples;
    expect([dataEpoch, offset]).toEqual(end === passSize ? [before.dataEpoch + 1, 0] : [before.dataEpoch, end]);
    expect(samples).toBeGreaterThan(0);
  }
}

describe('an elastic run', () => {
  test('goes on when a tab closes, and takes another in', async () => {
    const room = world.createRoom({ maxSteps: 60, batchSize: 16, hashEvery: 10 }, 3, NODES);
    const tabs = await Promise.all([0, 1, 2].map((i) => world.join(room, `tab-${i}`)));
    await Promise.all(tabs.map((tab) => tab.event('step', ({ step }) => step === 5)));
    await tabs[1]!.page.close();
    const rest = [tabs[0]!, tabs[2]!];
    await Promise.all(rest.map((tab) => tab.event('epoch', ({ worldSize }) => worldSize === 2)));
    await Promise.all(rest.map((tab) => tab.event('step', ({ step }) => step === 15)));
    const late = await world.join(room, 'late');
    const all = [...rest, late];
    const results = await Promise.all(all.map(async (tab) => (await tab.event('finished')).result));
    expect(results.map(({ worldSize }) => worldSize)).toEqual([3, 3, 3]);
    expect(new Set(results.flatMap(({ stateHash }) => stateHash)).size).toBe(1);
    expect(results.map(({ losses }) => losses)).toEqual([results[0]!.losses, results[0]!.losses, results[0]!.losses]);
    for (const tab of all) {
      const { trainSamples } = await tab.event('model');
      expectEachSampleOnce(tab, trainSamples);
    }
  });

  test('takes no notice of a restart of the server, whose room it rebuilds', async () => {
    const room = world.createRoom({ epochs: 10, batchSize: 16, hashEvery: 5 }, 2, NODES);
    const tabs = await Promise.all([0, 1].map((i) => world.join(room, `tab-${i}`)));
    const [first] = tabs as [Tab, Tab];
    await first.event('step', ({ step }) => step === 3);
    await world.restartServer(() => {
      const soon = steps(first).length + 5;
      return first.event('step', ({ step }) => step >= soon);
    });
    await first.event('state', ({ detail }) => detail.includes('the signaling server is away'));
    await vi.waitFor(() => expect(first.events.filter(({ type }) => type === 'admitted')).toHaveLength(2), 20_000);
    const late = await world.join(room, 'late');
    // Three that agree.
    await late.event('hashes', ({ hashes, agree }) => hashes.length === 3 && agree);
    // One epoch for the three and no other: the restart itself made none.
    expect(tabs.map((tab) => tab.events.filter(({ type }) => type === 'epoch').length)).toEqual([2, 2]);
  });
});
