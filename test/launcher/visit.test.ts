/** Tests which events end a tab's visit, and after which events the tab is lost. */
import { expect, test } from 'vitest';
import { Visit } from '../../launcher/browser/visit.ts';
import { STALL_MS } from '../../launcher/watch.ts';
import type { EngineEvent } from '../../src/protocol/events.ts';
import type { RunResult } from '../../src/protocol/runResult.ts';
import { ManualClock } from '../manualClock.ts';

const RESULT = { steps: 3 } as RunResult;
const ADMITTED: EngineEvent = { type: 'admitted', member: 'a', room: 'K7F3QX', hostKey: null };
const FINISHED: EngineEvent = { type: 'finished', result: RESULT };
const failed = (name: string, fatal: boolean): EngineEvent => ({ type: 'failed', name, message: 'Why', fatal });
const state = (name: 'WAITING' | 'RUNNING'): EngineEvent => ({
  type: 'state',
  state: name,
  generation: 1,
  detail: '',
  isServerAway: false,
  connecting: [],
});

function visit(stays: boolean) {
  const clock = new ManualClock();
  const visited = new Visit({ name: 'gpu', stays, clock });
  visited.on(ADMITTED);
  return { visited, clock };
}

test.each([
  [FINISHED, { kind: 'finished', result: RESULT }],
  [failed('RunOverError', false), { kind: 'ended', message: 'Why' }],
  [failed('RemovedError', true), { kind: 'removed', message: 'Why' }],
])('the event %j ends the visit of a tab', async (event, outcome) => {
  const { visited } = visit(false);
  visited.on(event);
  expect(await visited.over).toEqual(outcome);
});

test('a tab that stays after runs takes part in all of them until the host removes it', async () => {
  const { visited } = visit(true);
  for (const event of [FINISHED, failed('RunOverError', false), FINISHED]) visited.on(event);
  visited.on(failed('RemovedError', true));
  expect(await visited.over).toEqual({ kind: 'removed', message: 'Why' });
});

test.each([failed('SignalingError', true), failed('DataError', false)])(
  'a tab is lost after the event %j',
  async (event) => {
    const { visited } = visit(true);
    visited.on(event);
    await expect(visited.over).rejects.toThrow('gpu: Why.');
  },
);

test('the promise `admitted` rejects, with the reason, if the browser ends before the tab is admitted', async () => {
  const visited = new Visit({ name: 'gpu', stays: true, clock: new ManualClock() });
  visited.fail('the browser has ended');
  await expect(visited.admitted).rejects.toThrow('gpu: the browser has ended.');
});

test('a tab without new events is lost if it trains, but not if it waits for the start', async () => {
  const { visited, clock } = visit(true);
  visited.on(state('WAITING'));
  clock.advance(10 * STALL_MS);
  visited.on(state('RUNNING'));
  clock.advance(STALL_MS);
  await expect(visited.over).rejects.toThrow('There was no progress for 120 s');
});
