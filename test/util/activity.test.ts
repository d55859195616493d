import { expect, test } from 'vitest';
import {
  ThreadActivity,
  FIRST_THREAD_TASK_LIMIT_MS,
  isWorkingOrAwaitsWork,
  MIN_THREAD_TASK_LIMIT_MS,
  MAX_AWAITED_RANKS,
  pulseOfActiveRank,
  pulsesOfWaitChain,
  type Pulse,
} from '../../src/util/activity.ts';
import { createDeferred } from '../../src/util/deferred.ts';
import { ManualClock } from '../manualClock.ts';

test('a task may take 8 times its longest time so far, at least a minute, and 10 minutes the first time', async () => {
  const clock = new ManualClock();
  const activity = new ThreadActivity(clock);
  const limits: number[] = [];
  for (const [step, seconds] of [1, 20, 5, 1].entries()) {
    await activity.during(`step ${step}`, () => {
      limits.push(activity.report.limitMs);
      clock.advance(seconds * 1000);
    });
  }
  expect(limits).toEqual([FIRST_THREAD_TASK_LIMIT_MS, MIN_THREAD_TASK_LIMIT_MS, 160_000, 160_000]);
});

test('the time between tasks has the limit of the longest task', async () => {
  const clock = new ManualClock();
  const activity = new ThreadActivity(clock);
  const before = activity.report.limitMs;
  await activity.during('load the data', () => clock.advance(30_000));
  await activity.during('step 0', () => clock.advance(1_000));
  expect([before, activity.report.limitMs]).toEqual([FIRST_THREAD_TASK_LIMIT_MS, 240_000]);
});

test('a task that fails ends, and does not count for limits', async () => {
  const activity = new ThreadActivity(new ManualClock());
  await expect(activity.during('step 0', () => Promise.reject(new Error('No.')))).rejects.toThrow('No.');
  expect(activity.report).toMatchObject({ task: '', limitMs: FIRST_THREAD_TASK_LIMIT_MS });
});

test('the innermost task in progress is reported', async () => {
  const activity = new ThreadActivity(new ManualClock());
  const seen: string[] = [];
  activity.listeners.add(({ task }) => seen.push(task));
  await activity.during('warm up', () => activity.during('step 0', () => {}));
  expect(seen).toEqual(['warm up', 'step 0', 'warm up', '']);
});

test('progress restarts the time of a task, and is reported at most once a second', async () => {
  const clock = new ManualClock();
  const activity = new ThreadActivity(clock);
  const done = createDeferred();
  const loading = activity.during('load the data', () => done.promise);
  const reported: number[] = [];
  activity.listeners.add(({ progress }) => reported.push(progress));
  for (let i = 0; i < 40; i++) {
    clock.advance(100);
    activity.advance();
  }
  expect(reported).toEqual([10, 20, 30, 40]);
  clock.advance(300);
  expect(activity.report).toMatchObject({ progress: 40, ms: 300 });
  done.resolve();
  await loading;
});

test('bytes that are added on any rank count as progress', () => {
  const activity = new ThreadActivity(new ManualClock());
  const count = activity.countBytes();
  const counted = [[0, 10], [5, 10], [5, 10], [0, 0], [3, 0]].map((bytesPerRank) => {
    count(bytesPerRank);
    return activity.report.progress;
  }); // prettier-ignore
  expect(counted).toEqual([10, 15, 15, 15, 18]);
});

test('a task inside another one, such as a short pass in a warm-up, does not limit usual tasks of its kind', async () => {
  const clock = new ManualClock();
  const activity = new ThreadActivity(clock);
  const limitOfStep = async (size: number, ms: number): Promise<number> => {
    let limitMs = 0;
    const take = (): void => {
      ({ limitMs } = activity.report);
      clock.advance(ms);
    };
    await activity.during('step 0', take, size);
    return limitMs;
  };
  const limits = [await activity.during('warm up', () => limitOfStep(1, 4_000))];
  for (const size of [1, 32, 32]) limits.push(await limitOfStep(size, size * 3_000));
  expect(limits).toEqual([FIRST_THREAD_TASK_LIMIT_MS, FIRST_THREAD_TASK_LIMIT_MS, 8 * 3_000 * 32, 8 * 3_000 * 32]);
  const slow = new ThreadActivity(clock);
  await slow.during('warm up', () => slow.during('step 0', () => clock.advance(4_000), 1));
  let first = 0;
  await slow.during('step 0', () => void (first = slow.report.limitMs), 32);
  expect(first).toBe(8 * 4_000 * 32);
});

test('a large task may take longer than a small one of its kind', async () => {
  const clock = new ManualClock();
  const activity = new ThreadActivity(clock);
  await activity.during('evaluate', () => clock.advance(10_000), 16);
  let limitMs = 0;
  await activity.during('evaluate', () => void ({ limitMs } = activity.report), 256);
  expect(limitMs).toBe(8 * 10_000 * 16);
});

test('a task can end before its function does, and a wait for other ranks after this end does not count for limits', async () => {
  const clock = new ManualClock();
  const activity = new ThreadActivity(clock);
  const tasks: string[] = [];
  await activity.during('step 0', (end) => {
    clock.advance(20_000);
    end();
    tasks.push(activity.report.task);
    clock.advance(300_000);
  });
  await activity.during('step 1', () => {
    tasks.push(`${activity.report.task}: ${activity.report.limitMs}`);
  });
  expect(tasks).toEqual(['', 'step 1: 160000']);
});

const IDLE: Pulse = { task: '', progress: 0, isSilent: false, ms: 0, limitMs: 60_000 };
const WORKS: Pulse = { ...IDLE, task: 'step 3' };
const awaiting = (...awaits: string[]): Pulse => ({ ...IDLE, awaits });

test.each([
  ['true for a rank that works', { A: WORKS }, true],
  ['false for a rank that does nothing', { A: IDLE }, false],
  ['false for a rank that is not known', {}, false],
  ['true for a rank that waits for one that works', { A: awaiting('B'), B: WORKS }, true],
  [
    'true for a rank that waits for one that waits for one that works',
    { A: awaiting('B'), B: awaiting('C'), C: WORKS },
    true,
  ],
  ['true for a rank that waits for several, if one of these works', { A: awaiting('B', 'C'), B: IDLE, C: WORKS }, true],
  ['false for a rank in a circle of waits', { A: awaiting('B'), B: awaiting('A') }, false],
  [
    'true for a rank in a circle of waits that includes a rank that works',
    { A: awaiting('B'), B: awaiting('A', 'C'), C: WORKS },
    true,
  ],
  [
    'false for a rank that hangs, even if it waited for one that works',
    { A: { ...awaiting('B'), isSilent: true, ms: 95_000 }, B: WORKS },
    false,
  ],
] as const)('isWorkingOrAwaitsWork is %s', (_, pulses: Partial<Record<string, Pulse>>, isBehind) => {
  expect(isWorkingOrAwaitsWork('A', (member) => pulses[member])).toBe(isBehind);
});

test('pulsesOfWaitChain returns the pulses of all ranks that a rank waits for', () => {
  const pulses: Partial<Record<string, Pulse>> = { A: awaiting('B'), B: awaiting('A', 'C'), C: WORKS, D: WORKS };
  expect([...pulsesOfWaitChain(['A'], (member) => pulses[member]).keys()]).toEqual(['A', 'B', 'C']);
});

test('a pulse names only a limited number of the ranks that its thread waits for', () => {
  const activity = new ThreadActivity(new ManualClock());
  expect(pulseOfActiveRank(activity.report)).not.toHaveProperty('awaits');
  activity.awaits = () => Array.from({ length: 100 }, (_, i) => `m${i}`);
  expect(pulseOfActiveRank(activity.report).awaits).toHaveLength(MAX_AWAITED_RANKS);
});

test('a thread with unsent bytes is in the task "send", until a minute after the last byte was sent', () => {
  const clock = new ManualClock();
  const activity = new ThreadActivity(clock);
  let sent = 0;
  const seen: string[] = [];
  activity.traffic = () => ({ unsent: 1_000_000 - sent, sent, received: 0 });
  // A line of 50 kbit/s, asked every two seconds, which is cut after 800 kB.
  for (let seconds = 0; seconds < 240; seconds += 2) {
    sent = Math.min(800_000, seconds * 6_250);
    seen.push(activity.report.task);
    clock.advance(2_000);
  }
  const isSending = (seconds: number): boolean => seen[seconds / 2] === 'send';
  expect([2, 100, 128, 188, 190, 238].map(isSending)).toEqual([true, true, true, true, false, false]);
  sent = 1_000_000;
  expect(activity.report.task).toBe('');
});

test('a thread that computes while its links send is in its computing task', async () => {
  const activity = new ThreadActivity(new ManualClock());
  activity.traffic = () => ({ unsent: 1, sent: 1, received: 0 });
  await activity.during('step 3', () => expect(activity.report).toMatchObject({ task: 'step 3', ms: 0 }));
});

/** Plays reports every two seconds; each traffic is the bytes sent so far, and those that wait. */
function latenessOf(traffics: [sent: number, unsent: number][]): number[] {
  const clock = new ManualClock();
  const activity = new ThreadActivity(clock);
  return traffics.map(([sent, unsent]) => {
    clock.advance(2_000);
    activity.traffic = () => ({ unsent, sent, received: 0 });
    return Math.round(activity.report.lateMs / 1000);
  });
}

test.each<[string, [number, number][], number[]]>([
  [
    'a slow line',
    [
      [0, 1e6],
      [12_500, 987_500],
      [37_500, 962_500],
    ],
    [0, 168, 84],
  ],
  [
    'a line that is cut',
    [
      [0, 1e6],
      [12_500, 987_500],
      [12_500, 987_500],
      [12_600, 987_400],
    ],
    [0, 168, 168, 180],
  ],
  [
    'a slow line between two steps',
    [
      [0, 1e6],
      [12_500, 9_000],
      [21_500, 0],
      [21_500, 0],
    ],
    [0, 168, 168, 168],
  ],
  [
    'a fast line that always has more to send',
    [
      [0, 1e6],
      [1e6, 1e6],
      [2e6, 1e6],
    ],
    [0, 0, 0],
  ],
  [
    'a fast line with little to send',
    [
      [0, 100],
      [5_000, 100],
      [10_000, 0],
    ],
    [0, 0, 0],
  ],
  [
    'a line that becomes fast',
    [
      [0, 1e6],
      [12_500, 987_500],
      [1e6, 0],
    ],
    [0, 168, 2],
  ],
])('messages are late by the time that the unsent bytes of the line need: %s', (_, traffics, seconds) => {
  expect(latenessOf(traffics)).toEqual(seconds);
});
