/**
 * In real tabs, a rank's worker computes for longer than the server waits for a silent tab, and
 * another one computes forever.
 */
import { expect, test, vi } from 'vitest';
import { worldOfFile, type Tab } from '../harness/world.ts';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 60_000 });

const world = await worldOfFile({ limits: { heartbeatMs: 1_000, silentMs: 6_000 } });
const FIELDS = { epochs: 1000, maxSteps: 100_000, batchSize: 4, hashEvery: 5 };

/** Lets the engine's worker compute without a pause for `seconds`, or forever. */
function compute({ page }: Tab, seconds: number): void {
  const engine = page.workers().find((worker) => /\/worker-/.test(worker.url()))!;
  // A worker that is closed with its page rejects.
  void engine
    .evaluate((ms) => {
      const end = performance.now() + ms;
      while (performance.now() < end);
    }, seconds * 1000)
    .catch(() => {});
}

/**
 * Lets the clock of the worker that sends the heartbeats run `times` as fast. A thread hangs after
 * a minute without an answer, which this worker measures in heartbeats.
 */
async function hastenHeartbeats({ page }: Tab, times: number): Promise<void> {
  const pulse = page.workers().find((worker) => /\/pulseWorker-/.test(worker.url()))!;
  await pulse.evaluate((factor) => {
    const { setTimeout } = globalThis;
    globalThis.setTimeout = ((fn: () => void, ms: number) => setTimeout(fn, ms / factor)) as typeof setTimeout;
  }, times);
}

async function trainingPair(): Promise<[Tab, Tab]> {
  const room = world.createRoom(FIELDS, 2, { min: 1, max: 8 });
  const ann = await world.join(room, 'ann');
  const ben = await world.join(room, 'ben');
  await Promise.all([ann, ben].map((tab) => tab.event('step', ({ step }) => step === 10)));
  return [ann, ben];
}

test('a rank that computes for 13 s stays in its run', async () => {
  const [ann, ben] = await trainingPair();
  compute(ben, 13);
  await new Promise((resolve) => setTimeout(resolve, 10_000));
  const { step } = ann.events.findLast((event) => event.type === 'step')!;
  await Promise.all([ann, ben].map((tab) => tab.event('step', (event) => event.step > step + 5)));
  expect(ann.events.filter(({ type }) => type === 'generation')).toHaveLength(1);
  await Promise.all([ann, ben].map((tab) => tab.page.close()));
});

test('a rank in an endless loop is named on both pages, and the other rank continues to train', async () => {
  const [ann, ben] = await trainingPair();
  const rank = ann.events.findLast((event) => event.type === 'generation')!.rank;
  await hastenHeartbeats(ben, 4);
  compute(ben, Infinity);
  const { message } = await ann.event('note', (note) => note.message.includes('without an answer'));
  expect(message).toMatch(new RegExp(`^Rank ${1 - rank} \\(ben\\) has computed.* for \\d+ s without an answer`));
  await ann.event('generation', ({ worldSize }) => worldSize === 1);
  await ben.event('note', (note) => /^This tab has computed.* without an answer/.test(note.message));
});
