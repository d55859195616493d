import { describe, expect, test } from 'vitest';
import { belongs, collectivesOf, troublesOf, unrecorded } from '../../../src/app/monitor/analyze.ts';
import { mergeLanes } from '../../../src/app/monitor/mergeRecordings.ts';
import { readRecording } from '../../../src/app/monitor/recordingFile.ts';
import type { FlightRecording } from '../../../src/protocol/flightRecording.ts';
import { lane, record, recording } from './fixtures.ts';

describe('a file', () => {
  test('that was downloaded is read as it was', () => {
    const hop = { ringStep: 0, sentChunk: 0, receivedChunk: 1, sentAt: 1, receivedAt: null, reduceMs: 0.1 };
    const whole = recording(1, {
      records: [record(0), record(1, { kind: 'send', seq: null, endedAt: null })],
      traces: [{ step: 0, bucket: 0, bytes: 4, startedAt: 0, hops: [hop] }],
      ...{ lanes: [lane(0, 0)], clocks: [{ offsetMs: -3, errorMs: 1 }, null] },
    });
    expect(readRecording(JSON.stringify(whole))).toEqual({ ok: true, recording: whole });
  });

  test.each([
    ['{"format": "peer', /no JSON/],
    ['[]', /something else/],
    [JSON.stringify({ ...recording(0), format: 'har' }), /at format it says/],
    [JSON.stringify({ ...recording(0), version: 3 }), /at version/],
    [JSON.stringify(recording(0, { records: [record(0), record(-1)] })), /at records\.1\.seq it says/],
    [JSON.stringify(recording(3)), /at rank .*3 of 3/],
  ])('that is none is refused with what is wrong, and where: %s', (text, problem) => {
    const read = readRecording(text);
    expect(read.ok ? '' : read.problem).toMatch(problem);
  });
});

/** What is wrong with these, each rank's records given. */
function troubles(...ranks: FlightRecording['records'][]) {
  return troublesOf(collectivesOf(ranks.map((records, rank) => recording(rank, { records }))));
}

const under = { state: 'started', endedAt: null } as const;

describe('recordings laid together', () => {
  test('name the rank that never entered a collective, and who waits for it', () => {
    const waiting = [record(0), record(1, under)];
    expect(troubles(waiting, [record(0)], waiting)).toEqual([
      { kind: 'missing', call: 'allReduce(10 float32, SUM) #1', ranks: [1], waiting: [0, 2] },
    ]);
    // It had not begun it.
    const queued = [record(0), record(1, { state: 'scheduled', startedAt: null, endedAt: null })];
    expect(troubles(waiting, queued, waiting)).toMatchObject([{ kind: 'missing', ranks: [1] }]);
    // It has recorded nothing at all.
    expect(troubles([record(0, under)], [record(0, under)], [])).toMatchObject([{ ranks: [2], waiting: [0, 1] }]);
  });

  test('name a collective that all entered and some did not end, and ranks that do not agree what it is', () => {
    const failed = record(5, { state: 'failed', endedAt: 9 });
    expect(troubles([failed], [failed], [failed])).toMatchObject([{ kind: 'stuck', ranks: [0, 1, 2] }]);
    const other = record(5, { ...under, call: 'broadcast(3 int32)' });
    expect(troubles([record(5, under)], [other], [record(5, under)])).toEqual([
      { kind: 'differs', seq: 5, calls: ['allReduce(10 float32, SUM)', 'broadcast(3 int32)'] },
    ]);
  });

  test('do not blame a rank for what its recording is too old, or too short, to hold', () => {
    const lazyPage = [record(0), record(1), record(2), record(3, under)];
    // Taken while no. 1 was under way.
    expect(troubles(lazyPage, [record(0), record(1, under)], lazyPage)).toEqual([]);
    // Overwritten.
    const done = lazyPage.slice(0, 3);
    expect(troubles(done, done.slice(2), done)).toEqual([]);
    expect(
      collectivesOf([recording(0, { records: lazyPage }), recording(1, { records: lazyPage.slice(2) })])[3],
    ).toMatchObject({
      ...{ seq: 0, states: ['completed', 'unknown', 'unknown'] },
    });
    // A group that it has no part in.
    const side = record(0, { ...under, group: 1 });
    expect(troubles([record(0), side], [record(0)], [record(0), side])).toEqual([]);
  });

  test('know who is not recorded, and what does not go together', () => {
    const [first, third] = [recording(0), recording(2)];
    expect(unrecorded([first, third])).toEqual([1]);
    expect(belongs(recording(1), [first, third])).toBe(true);
    expect(belongs(recording(2), [first, third])).toBe(false);
    expect(belongs(recording(1, { generation: 2 }), [first])).toBe(false);
  });

  test('are laid on the first one’s clock, by whichever rank has compared them', () => {
    const known = { offsetMs: 50, errorMs: 2 };
    const first = recording(0, { lanes: [lane(0, 100)], clocks: [null, known, null] });
    const second = recording(1, { lanes: [lane(0, 150)] });
    const third = recording(2, { lanes: [lane(0, 70)], clocks: [{ offsetMs: 30, errorMs: 3 }, null, null] });
    const { rows, errorMs } = mergeLanes([first, second, third]);
    expect(rows.map(({ steps }) => steps[0]?.startedAt)).toEqual([100, 100, 100]);
    expect(errorMs).toBe(3);
    // Nobody knows.
    expect(mergeLanes([first, recording(2, { lanes: [lane(0, 70)] })]).rows[2]!.steps).toEqual([]);
  });
});
