/** Runs of more tabs than a demo has. The tabs compute in WebAssembly. */
import { expect, test, vi } from 'vitest';
import { type Tab, worldOfFile } from '../harness/world.ts';

vi.setConfig({ testTimeout: 90_000 });

const world = await worldOfFile();

const TABS = 8;

test('eight tabs on a ring have equal states, and five of them continue when three are closed', async () => {
  // The run does not end before the tabs are closed, however busy the machine is.
  const fields = { job: 'digits', batchSize: 8, epochs: 1000, hashEvery: 4, algorithm: 'ring' };
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
  const { gradientBytes, trainSamples } = await first.event('model');
  for (const { gradientBytesSent } of ranks) {
    const ratio = gradientBytesSent / (((2 * (TABS - 1)) / TABS) * gradientBytes * 4);
    expect(ratio).toBeGreaterThanOrEqual(0.99);
    expect(ratio).toBeLessThan(1.01);
  }

  const leavers = [all[2]!, all[3]!, all[7]!];
  const rest = all.filter((tab) => !leavers.includes(tab));
  await Promise.all(leavers.map((tab) => tab.page.close()));
  await Promise.all(
    rest.map(async (tab) => {
      const after = await tab.event('hashes', (event) => event.hashes.length === rest.length);
      expect(after.agree).toBe(true);
      expect((await tab.event('algorithm')).algorithm).toBe('ring');
      expect((await tab.event('device')).device.backend).toBe('wasm');
    }),
  );
  expectEachSampleOnce(rest, trainSamples);
});

/**
 * Expects that the windows of all steps of these tabs follow each other, through all epochs. A step
 * counts once.
 */
function expectEachSampleOnce(tabs: readonly Tab[], trainSamples: number): void {
  const reports = tabs.flatMap(({ events }) => events.filter((event) => event.type === 'step'));
  const windows = new Map(
    reports.map(({ step, epoch, offset, samples }) => [
      `${step} ${epoch} ${offset} ${samples}`,
      { step, start: epoch * trainSamples + offset, samples },
    ]),
  );
  const inOrder = [...windows.values()].sort((a, b) => a.step - b.step);
  let start = 0;
  for (const [step, window] of inOrder.entries()) {
    expect(window).toMatchObject({ step, start });
    start += window.samples;
  }
}
