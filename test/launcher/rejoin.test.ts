/** Tests how tabs rejoin their room. */
import { expect, test } from 'vitest';
import {
  AdmissionQueue,
  FIRST_PAUSE_MS,
  keepTabInRoom,
  LONGEST_PAUSE_MS,
  type AdmittedTab,
} from '../../launcher/rejoin.ts';
import type { TabOutcome } from '../../launcher/browser/visit.ts';
import { createDeferred, type Deferred } from '../../src/util/deferred.ts';
import { ManualClock } from '../manualClock.ts';

const REMOVED: TabOutcome = { kind: 'removed', message: 'The host has removed this tab from the room.' };
const turns = async (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/**
 * Returns a room. It refuses tabs while `refusals` contains reasons, and admits them afterwards.
 */
function room(queue = new AdmissionQueue()) {
  const clock = new ManualClock();
  const controller = new AbortController();
  const visits: Deferred<TabOutcome>[] = [];
  const pauses: string[] = [];
  const refusals: string[] = [];
  let closed = 0;
  const enter = (): Promise<AdmittedTab> => {
    const refusal = refusals.shift();
    if (refusal !== undefined) return Promise.reject(new Error(refusal));
    const over = createDeferred<TabOutcome>();
    visits.push(over);
    return Promise.resolve({ over: over.promise, close: () => Promise.resolve(void (closed += 1)) });
  };
  const onpause = (why: string, ms: number): void => void pauses.push(`${why} ${ms / 1000}`);
  const stay = () => keepTabInRoom({ enter, queue, clock, random: () => 0.5, onpause, signal: controller.signal });
  const pass = async (ms: number): Promise<void> => {
    await turns();
    clock.advance(ms);
    await turns();
  };
  return { stay, pass, visits, pauses, refusals, controller, closed: () => closed };
}

test('a tab tries again to join a missing room, after pauses that grow to a minute', async () => {
  const { stay, pass, visits, pauses, refusals } = room();
  refusals.push(...Array.from({ length: 8 }, () => 'No room.'));
  const outcome = stay();
  for (let i = 0; i < 8; i++) await pass(LONGEST_PAUSE_MS);
  expect(pauses).toEqual([2, 4, 8, 16, 32, 60, 60, 60].map((s) => `No room. ${s}`));
  visits[0]!.resolve(REMOVED);
  expect(await outcome).toEqual(REMOVED);
});

test('a lost tab joins again after a pause, and after a longer one if it is soon lost again', async () => {
  const { stay, pass, visits, pauses, closed } = room();
  const outcome = stay();
  await pass(0);
  for (const [i, ms] of [0, 0, LONGEST_PAUSE_MS, 0].entries()) {
    await pass(ms);
    visits[i]!.reject(new Error('Crashed.'));
    await pass(FIRST_PAUSE_MS * 4);
  }
  expect(pauses).toEqual([2, 4, 2, 4].map((s) => `Crashed. ${s}`));
  expect(closed()).toBe(4);
  visits[4]!.resolve(REMOVED);
  await outcome;
});

test('while the room refuses one tab of a machine, its other tabs do not try to join', async () => {
  const queue = new AdmissionQueue();
  const [first, second] = [room(queue), room(queue)];
  first.refusals.push('Locked.', 'Locked.');
  void first.stay();
  void second.stay();
  await first.pass(FIRST_PAUSE_MS);
  expect([first.visits.length, second.visits.length]).toEqual([0, 0]);
  await first.pass(FIRST_PAUSE_MS * 2);
  await second.pass(0);
  expect([first.visits.length, second.visits.length]).toEqual([1, 1]);
});

test('Ctrl-C ends the pause before the next attempt to join', async () => {
  const { stay, pass, refusals, controller } = room();
  refusals.push('No room.');
  const outcome = stay();
  await pass(0);
  controller.abort(new Error('interrupted'));
  await expect(outcome).rejects.toThrow('interrupted');
});
