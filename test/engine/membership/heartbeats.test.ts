import { expect, test } from 'vitest';
import { ThreadWatch } from '../../../src/engine/membership/heartbeats.ts';
import { activityOfRanks } from '../../../src/engine/membership/generation.ts';
import type { Pulse, RosterEntry } from '../../../src/protocol/room.ts';
import { pulseVerdict } from '../../../src/util/activity.ts';

const INTERVAL_MS = 2_000;
const REPORT = { task: 'step 3', progress: 7, ms: 0, limitMs: 60_000, awaits: [], bytes: 0, lateMs: 0 };

test('a thread is silent after two unanswered questions, and hangs after its time limit', () => {
  const thread = new ThreadWatch();
  thread.heard(REPORT);
  const pulses = Array.from({ length: 33 }, () => thread.pulse(INTERVAL_MS));
  expect(pulses.slice(0, 4).map(({ isSilent, ms }) => [isSilent, ms])).toEqual([
    [false, 0],
    [false, 0],
    [true, 4_000],
    [true, 6_000],
  ]);
  expect(pulses.findIndex((pulse) => pulseVerdict(pulse) === 'hangs')).toBe(31);
  thread.heard();
  expect(pulseVerdict(thread.pulse(INTERVAL_MS))).toBe('works');
});

test('a thread is not silent after its machine has slept, because only unanswered questions count, not time', () => {
  const thread = new ThreadWatch();
  thread.heard(REPORT);
  thread.pulse(INTERVAL_MS);
  // The machine sleeps for an hour here.
  expect(thread.pulse(INTERVAL_MS).isSilent).toBe(false);
});

test('activityOfRanks describes in sentences the activity of the ranks that an op waits for', () => {
  const members = ['Ada', 'Bo', 'Cy', 'Di'].map((name): RosterEntry => {
    return { member: name, name, device: null, browser: 0, rank: null };
  });
  const pulse: Pulse = { ...REPORT, isSilent: false };
  const pulses = new Map<string, Pulse>([
    ['Ada', { ...pulse, task: '', ms: 0 }],
    ['Bo', { ...pulse, isSilent: true, ms: 95_000 }],
    ['Cy', { ...pulse, ms: 30_000 }],
  ]);
  expect(activityOfRanks([0, 1, 2, 3], members, pulses)).toEqual({
    areWorking: false,
    text:
      'Rank 0 (Ada) answers, but computes nothing. Rank 1 (Bo) has computed "step 3" for 95 s without an answer. ' +
      'Rank 2 (Cy) has been in "step 3" for 30 s. Rank 3 (Di) is not known to the server.',
  });
  expect(activityOfRanks([2], members, pulses).areWorking).toBe(true);
  pulses.set('Di', { ...pulse, task: '', awaits: ['Cy'] });
  expect(activityOfRanks([3], members, pulses)).toEqual({
    areWorking: true,
    text: 'Rank 3 (Di) waits for rank 2 (Cy).',
  });
});
