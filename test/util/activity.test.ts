import { expect, test } from 'vitest';
import { Activity, FIRST_LIMIT_MS, LEAST_LIMIT_MS } from '../../src/util/activity.ts';
import { deferred } from '../../src/util/deferred.ts';
import { ManualClock } from '../manualClock.ts';

test('a task may take 8 times its longest so far, at least a minute, and 10 minutes if it was never completed', async () => {
  const clock = new ManualClock();
  const activity = new Activity(clock);
  const limits: number[] = [];
  for (const [step, seconds] of [1, 20, 5, 1].entries()) {
    await activity.during(`step ${step}`, () => {
      limits.push(activity.report.limitMs);
      clock.advance(seconds * 1000);
    });
  }
  expect(limits).toEqual([FIRST_LIMIT_MS, LEAST_LIMIT_MS, 160_000, 160_000]);
});

test('work between tasks has the pace of the longest of them', async () => {
  const clock = new ManualClock();
  const activity = new Activity(clock);
  const before = activity.report.limitMs;
  await activity.during('load the data', () => clock.advance(30_000));
  await activity.during('step 0', () => clock.advance(1_000));
  expect([before, activity.report.limitMs]).toEqual([FIRST_LIMIT_MS, 240_000]);
});

test('a failed task sets no pace, and ends', async () => {
  const activity = new Activity(new ManualClock());
  await expect(activity.during('step 0', () => Promise.reject(new Error('No.')))).rejects.toThrow('No.');
  expect(activity.report).toMatchObject({ task: '', limitMs: FIRST_LIMIT_MS });
});

test('the latest task in progress is reported', async () => {
  const activity = new Activity(new ManualClock());
  const seen: string[] = [];
  activity.listeners.add(({ task }) => seen.push(task));
  await activity.during('warm up', () => activity.during('step 0', () => {}));
  expect(seen).toEqual(['warm up', 'step 0', 'warm up', '']);
});

test('progress begins the time of a task again, and is reported at most once a second', async () => {
  const clock = new ManualClock();
  const activity = new Activity(clock);
  const done = deferred();
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
