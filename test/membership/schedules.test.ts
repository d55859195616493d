/**
 * A room, its members and a run in random schedules of messages, timers and faults. The faults are
 * lost connections, crashes, freezes, broken links, restarts of the server, and duplicate messages.
 * The invariants are in world/invariants.ts.
 */
import { expect, test } from 'vitest';
import { FROM, SCHEDULES } from './count.ts';
import { describeFailure, playActions, playSeed, shrink, type Action } from './schedule.ts';

test(`${SCHEDULES} random membership schedules break no invariant`, { timeout: 6_000_000 }, () => {
  // `again` counts the schedules in which more than one generation has trained.
  const seen = { again: 0, restored: 0, finished: 0, paused: 0, resumed: 0, separated: 0, suspended: 0 };
  for (let seed = FROM; seed < FROM + SCHEDULES; seed++) {
    const outcome = playSeed(seed);
    if (outcome.violation !== null) expect.fail(describeFailure(seed, shrink(outcome)));
    const { generations, restarts, hasFinished, hasPaused, hasResumed, hasSeparated, hasSuspended } =
      outcome.world.seen;
    if (generations > 1) seen.again++;
    if (restarts > 0 && generations > 1) seen.restored++;
    if (hasFinished) seen.finished++;
    if (hasPaused) seen.paused++;
    if (hasResumed) seen.resumed++;
    if (hasSeparated) seen.separated++;
    if (hasSuspended) seen.suspended++;
  }
  if (SCHEDULES < 1000) return;
  // The schedules must reach every situation often enough.
  expect(seen.again).toBeGreaterThan(SCHEDULES / 8);
  expect(seen.restored).toBeGreaterThan(SCHEDULES / 80);
  expect(seen.finished).toBeGreaterThan(SCHEDULES / 3);
  expect(seen.paused).toBeGreaterThan(SCHEDULES / 20);
  expect(seen.resumed).toBeGreaterThan(SCHEDULES / 80);
  expect(seen.separated).toBeGreaterThan(SCHEDULES / 500);
  expect(seen.suspended).toBeGreaterThan(SCHEDULES / 500);
});

test('if a restart of the server allows two different sequences of steps, the longer one is kept', () => {
  const outcome = playSeed(1234034649);
  expect(outcome.violation).toBeNull();
  expect(outcome.world.seen.restarts).toBe(1);
});

test('a member never receives room messages in the wrong order, so the host can resume a paused run', () => {
  const room = { slots: 3, nodes: { min: 2, max: 3 }, startAt: 2, hasRelay: false };
  const together: Action[] = [
    ['join', 1, 0],
    ['without', 3, 15],
    ['join', 0, 0],
    ['without', 3, 15],
  ];
  const paused: Action[] = [
    ['without', 0, 4],
    ['pause', 1, 202],
    ['without', 1, 3],
    ['up', 1, 185],
  ];
  const actions: Action[] = [...together, ...paused, ['repeat', 1, 65]];
  const outcome = playActions({ ...playSeed(FROM), options: room, burst: 45 }, actions);
  expect(outcome.actions.map(([name]) => name)).toContain('repeat');
  expect(outcome.violation).toBeNull();
});

test('a schedule has the same outcome in each run, and when its actions are repeated', () => {
  const first = playSeed(FROM + 7);
  expect(playSeed(FROM + 7).actions).toEqual(first.actions);
  const again = playActions(first, first.actions);
  expect(again.actions).toEqual(first.actions);
  expect(again.world.seen).toEqual(first.world.seen);
});
