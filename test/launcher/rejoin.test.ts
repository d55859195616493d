/** Tabs that come back to their room. */
import { expect, test } from 'vitest';
import {
  AdmissionQueue,
  FIRST_PAUSE_MS,
  keepTabInRoom,
  LONGEST_PAUSE_MS,
  type AdmittedTab,
} from '../../launcher/rejoin.ts';
import type { TabOutcome } from '../../launcher/browser/visit.ts';
import { deferred, type Deferred } from '../../src/util/deferred.ts';
import { ManualClock } from '../manualClock.ts';

const REMOVED: TabOutcome = { kind: 'removed', message: 'The host has sent this tab out of the room.' };
const turns = async (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A room that lets tabs in, or not, as `next` says. */
function room(queue = new AdmissionQueue()) {
  const clock = new ManualClock();
  const controller = new AbortController();
  const stays: Deferred<TabOutcome>[] = [];
  const pauses: string[] = [];
  const refusals: string[] = [];
  let closed = 0;
  const enter = (): Promise<AdmittedTab> => {
    const refusal = refusals.shift();
    if (refusal !== undefined) return Promise.reject(new Error(refusal));
    const over = deferred<TabOutcome>();
    stays.push(over);
    return Promise.resolve({ over: over.promise, close: () => Promise.resolve(void (closed += 1)) });
  };
  const onpause = (why: string, ms: number): void => void pauses.push(`${why} ${ms / 1000}`);
  const come = () => keepTabInRoom({ enter, queue, clock, random: () => 0.5, onpause, signal: controller.signal });
  const pass = async (ms: number): Promise<void> => {
    await turns();
    clock.advance(ms);
    await turns();
  };
  return { come, pass, stays, pauses, refusals, controller, closed: () => closed };
}

test('a room that is not there yet is asked for again, after pauses that grow up to a minute', async () => {
  const { come, pass, stays, pauses, refusals } = room();
  refusals.push(...Array.from({ length: 8 }, () => 'No room.'));
  const outcome = come();
  for (let i = 0; i < 8; i++) await pass(LONGEST_PAUSE_MS);
  expect(pauses).toEqual([2, 4, 8, 16, 32, 60, 60, 60].map((s) => `No room. ${s}`));
  stays[0]!.resolve(REMOVED);
  expect(await outcome).toEqual(REMOVED);
});

test('a tab that is lost comes back, at once where it was there for long, and later where it is lost again and again', async () => {
  const { come, pass, stays, pauses, closed } = room();
  const outcome = come();
  await pass(0);
  for (const [i, ms] of [0, 0, LONGEST_PAUSE_MS, 0].entries()) {
    await pass(ms);
    stays[i]!.reject(new Error('Crashed.'));
    await pass(FIRST_PAUSE_MS * 4);
  }
  expect(pauses).toEqual([2, 4, 2, 4].map((s) => `Crashed. ${s}`));
  expect(closed()).toBe(4);
  stays[4]!.resolve(REMOVED);
  await outcome;
});

test('where one tab of a machine is refused the others do not ask', async () => {
  const queue = new AdmissionQueue();
  const [first, second] = [room(queue), room(queue)];
  first.refusals.push('Locked.', 'Locked.');
  void first.come();
  void second.come();
  await first.pass(FIRST_PAUSE_MS);
  expect([first.stays.length, second.stays.length]).toEqual([0, 0]);
  await first.pass(FIRST_PAUSE_MS * 2);
  await second.pass(0);
  expect([first.stays.length, second.stays.length]).toEqual([1, 1]);
});

test('Ctrl-C ends the wait', async () => {
  const { come, pass, refusals, controller } = room();
  refusals.push('No room.');
  const outcome = come();
  await pass(0);
  controller.abort(new Error('interrupted'));
  await expect(outcome).rejects.toThrow('interrupted');
});
