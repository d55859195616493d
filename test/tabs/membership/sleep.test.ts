/** In real tabs, a machine sleeps for longer than the server waits for it, and wakes up. */
import { afterAll, expect, test, vi } from 'vitest';
import { World, worldOfFile } from '../harness/world.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

const world = await worldOfFile({ limits: { heartbeatMs: 1_000, silentMs: 6_000 } });
/** The other machine. Only its browser is used. */
const machine = await World.start();
afterAll(() => machine.stop());

test('a rank joins the run again and trains after its machine has slept, without any action of the user', async () => {
  const room = world.createRoom({ epochs: 1000, maxSteps: 100_000, batchSize: 4, hashEvery: 5 }, 2, { min: 1, max: 8 });
  const ann = await world.join(room, 'ann');
  const ben = await machine.join(room, 'ben', { origin: `http://localhost:${world.server.port}` });
  await Promise.all([ann, ben].map((tab) => tab.event('step', ({ step }) => step === 10)));

  const wake = await machine.sleep();
  try {
    await ann.event('generation', ({ worldSize }) => worldSize === 1);
    await ann.event('room', ({ members }) => members.length === 1);
  } finally {
    wake();
  }
  const { step } = ann.events.findLast((event) => event.type === 'step')!;
  // Ranks compare their states every few steps, so both train.
  const { hashes } = await ben.event('hashes', (event) => event.step > step && event.hashes.length === 2);
  expect(new Set(hashes).size).toBe(1);
  expect(ben.events.filter(({ type }) => type === 'failed')).toEqual([]);
});
