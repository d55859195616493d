import { beforeEach, expect, test } from 'vitest';
import { EVENT_BATCH_MS, EventBatches } from '../../src/engine/eventBatches.ts';
import type { EngineEvent, EventOf } from '../../src/protocol/events.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import { ManualClock } from '../manualClock.ts';

let clock: ManualClock;
let sent: string[][];
let batches: EventBatches;

beforeEach(() => {
  clock = new ManualClock();
  sent = [];
  batches = new EventBatches(clock, (events) => sent.push(events.map(nameOf)));
});

function nameOf(event: EngineEvent): string {
  return 'step' in event ? `${event.type} ${event.step}` : event.type;
}

function add(...events: EngineEvent[]): void {
  for (const event of events) batches.add(event);
}

const generation: EngineEvent = {
  ...{ type: 'generation', generation: 1, run: 1, rank: 0, worldSize: 1, localRank: 0, localWorldSize: 1 },
  ...{ members: [], job: DEFAULT_JOB },
};
const failed: EngineEvent = { type: 'failed', name: 'Error', message: 'It failed.', fatal: true };

function step(n: number): EventOf<'step'> {
  const ms = { total: 1, data: 0, compute: 1, readback: 0, communicate: 0, exposed: 0, update: 0 };
  return { type: 'step', step: n, epoch: 0, offset: 0, loss: 1, samples: 8, ms, at: n };
}

function begin(n: number): EventOf<'begin'> {
  return { type: 'begin', step: n, epoch: 0, samples: 8 };
}

test('the first step of a generation is sent at once, and later steps together', () => {
  add(generation, begin(0), step(0), begin(1), step(1), step(2));
  expect(sent).toEqual([['generation'], ['begin 0', 'step 0']]);
  clock.advance(EVENT_BATCH_MS);
  expect(sent.slice(2)).toEqual([['begin 1', 'step 1', 'step 2']]);
  expect(clock.untilNext).toBeNull();
});

test('every generation has a first step', () => {
  add(generation, step(0), step(1), generation, step(1));
  expect(sent).toEqual([['generation'], ['step 0'], ['step 1', 'generation'], ['step 1']]);
});

test('an infrequent event is sent at once, together with all waiting events, in order', () => {
  add(generation, step(0), step(1), step(2), failed);
  expect(sent.slice(2)).toEqual([['step 1', 'step 2', 'failed']]);
  clock.advance(EVENT_BATCH_MS);
  expect(sent).toHaveLength(3);
});

test('an event is not delayed by a timer that is late', () => {
  let now = 0;
  const busy = new EventBatches({ now: () => now, after: () => () => {} }, (events) => sent.push(events.map(nameOf)));
  busy.add(step(0));
  busy.add(step(1));
  now = EVENT_BATCH_MS;
  busy.add(step(2));
  expect(sent).toEqual([['step 0'], ['step 1', 'step 2']]);
});

function trace(n: number, bucket = 0): EventOf<'trace'> {
  return { type: 'trace', step: n, bucket, bytes: 8, algorithm: 'ring', startedAt: n, hops: [] };
}

test('a page that is visible again receives the traces of the latest step, even after the run', () => {
  batches.isWatched = false;
  add(generation, trace(0), step(0), trace(1, 0), trace(1, 1), step(1), failed);
  batches.isWatched = true;
  clock.advance(EVENT_BATCH_MS);
  batches.isWatched = true;
  clock.advance(EVENT_BATCH_MS);
  expect(sent.slice(2)).toEqual([
    ['step 1', 'failed'],
    ['trace 1', 'trace 1'],
  ]);
});

test('traces of an earlier generation are not sent, because its ranks have different numbers', () => {
  batches.isWatched = false;
  add(generation, trace(0), step(0), generation);
  batches.isWatched = true;
  clock.advance(EVENT_BATCH_MS);
  expect(sent).toEqual([['generation'], ['step 0'], ['generation']]);
});

test('a page that nobody sees receives no events for its animation', () => {
  batches.isWatched = false;
  add(generation, begin(0), step(0));
  batches.isWatched = true;
  add(begin(1), failed);
  expect(sent).toEqual([['generation'], ['step 0'], ['begin 1', 'failed']]);
});
