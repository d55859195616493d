/** Elastic runs in real tabs: ranks join and leave during training. */
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { type Tab, World, worldOfFile } from '../harness/world.ts';

vi.setConfig({ testTimeout: 150_000 });

const world = await worldOfFile();

const NODES = { min: 1, max: 8 };
/** So many that no run ends before a late tab is ready, however slow the machine is. */
const epochs = 1000;

/** The step events of a tab. */
function steps(tab: Tab) {
  return tab.events.filter((event) => event.type === 'step');
}

/**
 * Checks that no step is missing, that all tabs report the same samples for a step, and that the
 * samples of all steps cover the epochs without gaps.
 */
async function expectEachSampleOnce(...tabs: Tab[]): Promise<void> {
  const { trainSamples } = await tabs[0]!.event('model');
  const windows = new Map<number, { epoch: number; offset: number; samples: number }>();
  for (const { step, epoch, offset, samples } of tabs.flatMap(steps)) {
    const window = { epoch, offset, samples };
    expect(windows.get(step) ?? window).toEqual(window);
    windows.set(step, window);
  }
  let next = { epoch: 0, offset: 0 };
  for (let step = 0; step < windows.size; step++) {
    const { samples, ...position } = windows.get(step)!;
    expect(position).toEqual(next);
    const end = position.offset + samples;
    next = end === trainSamples ? { epoch: next.epoch + 1, offset: 0 } : { epoch: next.epoch, offset: end };
  }
}

describe('an elastic run', () => {
  test('continues when a tab is closed and another tab joins', async () => {
    const maxSteps = 60;
    const room = world.createRoom({ maxSteps, batchSize: 16, hashEvery: 10 }, 3, NODES);
    // After each comparison of states, the run waits up to 10 s for the first tab. So it does not
    // end before the late tab has joined.
    const before = 'globalThis.peergradCheckpointBarrier = true;';
    const [first, closing, last] = await Promise.all([
      world.join(room, 'tab-0', { before }),
      world.join(room, 'tab-1'),
      world.join(room, 'tab-2'),
    ]);
    const goOnTo = (step: number) => first.page.evaluate((to) => globalThis.peergradCheckpointSaved!(to), step);
    await Promise.all([first, closing, last].map((tab) => tab.event('step', ({ step }) => step === 5)));
    await goOnTo(10);
    await closing.page.close();
    const rest = [first, last];
    await Promise.all(rest.map((tab) => tab.event('generation', ({ worldSize }) => worldSize === 2)));
    await Promise.all(rest.map((tab) => tab.event('step', ({ step }) => step === 15)));
    const late = await world.join(room, 'late');
    await late.event('generation');
    await goOnTo(maxSteps);
    const all = [...rest, late];
    const results = await Promise.all(all.map(async (tab) => (await tab.event('finished')).result));
    expect(results.map(({ worldSize }) => worldSize)).toEqual([3, 3, 3]);
    expect(new Set(results.flatMap(({ stateHash }) => stateHash)).size).toBe(1);
    expect(results.map(({ losses }) => losses)).toEqual([results[0]!.losses, results[0]!.losses, results[0]!.losses]);
    await expectEachSampleOnce(...all);
  });

  test('continues while the server restarts, and then rebuilds its room on the server', async () => {
    const room = world.createRoom({ epochs, batchSize: 16, hashEvery: 5 }, 2, NODES);
    const tabs = await Promise.all([0, 1].map((i) => world.join(room, `tab-${i}`)));
    const [first] = tabs as [Tab, Tab];
    await first.event('step', ({ step }) => step === 3);
    await world.restartServer(() => {
      const soon = steps(first).length + 5;
      return first.event('step', ({ step }) => step >= soon);
    });
    await first.event('state', ({ detail }) => detail.includes('the signaling server cannot be reached'));
    await vi.waitFor(() => expect(first.events.filter(({ type }) => type === 'admitted')).toHaveLength(2), 20_000);
    const late = await world.join(room, 'late');
    // The third tab has joined, and all three have the same state hash.
    await late.event('hashes', ({ hashes, agree }) => hashes.length === 3 && agree);
    // Only the start and the third tab began a generation; the restart did not.
    expect(tabs.map((tab) => tab.events.filter(({ type }) => type === 'generation').length)).toEqual([2, 2]);
  });

  test('continues after its tabs have lost their GPU', async () => {
    const onGpu = await World.start({}, { backend: 'webgpu' });
    onTestFinished(() => onGpu.stop());
    const room = onGpu.createRoom({ epochs, batchSize: 16, hashEvery: 5 }, 2, NODES);
    const tabs = await Promise.all([0, 1].map((i) => onGpu.join(room, `tab-${i}`)));
    await Promise.all(tabs.map((tab) => tab.event('step', ({ step }) => step === 3)));
    await onGpu.killGpu();
    const soon = Math.max(...tabs.map((tab) => steps(tab).length)) + 8;
    await Promise.all(tabs.map((tab) => tab.event('hashes', ({ step, agree }) => step >= soon && agree)));
    await expectEachSampleOnce(...tabs);
    expect(tabs.flatMap(({ events }) => events.filter(({ type }) => type === 'failed'))).toEqual([]);
  });
});
