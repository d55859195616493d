/** Runs of more tabs than a demo has. The tabs compute in WebAssembly. */
import { expect, test, vi } from 'vitest';
import { type Tab, worldOfFile } from './world.ts';

vi.setConfig({ testTimeout: 90_000 });

const world = await worldOfFile({}, { backend: 'wasm' });

const TABS = 8;

test('eight tabs train by the ring with equal states, and when three of them are closed, the others finish', async () => {
  const fields = { job: 'digits', batchSize: 8, maxSteps: 16, hashEvery: 4, algorithm: 'ring' };
  const room = world.createRoom(fields, TABS, { min: 2, max: TABS });
  const first = await world.join(room, 'tab-1');
  const others = await Promise.all(
    Array.from({ length: TABS - 1 }, (_, i) => world.join(room, `tab-${i + 2}`, { beside: first })),
  );
  const all = [first, ...others];
  // The states of all ranks are equal after the fourth step.
  const { hashes, agree } = await first.event('hashes');
  expect(hashes).toHaveLength(TABS);
  expect(agree).toBe(true);
  const { ranks } = await first.event('ranks');
  const { gradientBytes } = await first.event('model');
  for (const { gradientBytesSent } of ranks) {
    const ratio = gradientBytesSent / (((2 * (TABS - 1)) / TABS) * gradientBytes * 4);
    expect(ratio).toBeGreaterThanOrEqual(0.99);
    expect(ratio).toBeLessThan(1.01);
  }

  const leavers = [all[2]!, all[3]!, all[7]!];
  const rest = all.filter((tab) => !leavers.includes(tab));
  await Promise.all(leavers.map((tab) => tab.page.close()));
  const results = await Promise.all(rest.map(async (tab) => (await tab.event('finished')).result));
  for (const result of results) {
    expect(result).toMatchObject({ worldSize: rest.length, steps: 16, algorithm: 'ring', backend: 'wasm' });
    expect(new Set([...result.stateHash, ...results[0]!.stateHash]).size).toBe(1);
  }
  expect(samplesOf(rest)).toEqual([...samplesOf(rest).keys()]);
});

/** The samples that the steps of these tabs used, in the order of the steps. A step counts once. */
function samplesOf(tabs: readonly Tab[]): number[] {
  const steps = tabs.flatMap(({ events }) => events.filter((event) => event.type === 'step'));
  const windows = new Map(
    steps.map(({ step, epoch, offset, samples }) => [`${step} ${epoch} ${offset}`, { step, offset, samples }]),
  );
  const inOrder = [...windows.values()].sort((a, b) => a.step - b.step || a.offset - b.offset);
  return inOrder.flatMap(({ offset, samples }) => Array.from({ length: samples }, (_, i) => offset + i));
}
