import { describe, expect, test } from 'vitest';
import {
  canShowTogether,
  recordedCollectives,
  findCollectiveTroubles,
  ranksWithoutRecording,
} from '../../../src/app/monitor/analyze.ts';
import { mergeRecordedLanes } from '../../../src/app/monitor/mergeRecordings.ts';
import { parseFlightRecordingFile } from '../../../src/app/monitor/recordingFile.ts';
import type { FlightRecording } from '../../../src/protocol/flightRecording.ts';
import { lane, record, recording } from './fixtures.ts';

describe('a recording file', () => {
  test('contains the whole recording: a recording that is written and read again is equal', () => {
    const hop = { planStep: 0, sentAt: 1, receivedAt: null, reduceMs: 0.1 };
    const whole = recording(1, {
      records: [record(0), record(1, { kind: 'send', seq: null, endedAt: null })],
      traces: [{ step: 0, bucket: 0, bytes: 4, algorithm: 'two-level', startedAt: 0, hops: [hop] }],
      lanes: [lane(0, 0)],
      clocks: [{ offsetMs: -3, errorMs: 1 }, null],
    });
    expect(parseFlightRecordingFile(JSON.stringify(whole))).toEqual({ ok: true, recording: whole });
  });

  test.each([
    ['{"format": "peer', /not valid JSON/],
    ['[]', /not a flight recording/],
    [JSON.stringify({ ...recording(0), format: 'har' }), /recording \(format:/],
    [JSON.stringify({ ...recording(0), version: 4 }), /recording \(version:/],
    [JSON.stringify(recording(0, { records: [record(0), record(-1)] })), /recording \(records\.1\.seq:/],
    [JSON.stringify(recording(3)), /recording \(rank.*3 of 3/],
  ])('is rejected with the problem and its position if it is not valid: %s', (text, problem) => {
    const read = parseFlightRecordingFile(text);
    expect(read.ok ? '' : read.problem).toMatch(problem);
  });
});

/**
 * Returns the problems that are found in recordings. Each argument lists the records of one rank.
 */
function troubles(...ranks: FlightRecording['records'][]) {
  return findCollectiveTroubles(recordedCollectives(ranks.map((records, rank) => recording(rank, { records }))));
}

const under = { state: 'started', endedAt: null } as const;

describe('merged recordings', () => {
  test('name the rank that never entered a collective, and the ranks that wait for it', () => {
    const waiting = [record(0), record(1, under)];
    expect(troubles(waiting, [record(0)], waiting)).toEqual([
      { kind: 'missing', call: 'allReduce(10 float32, SUM) #1', ranks: [1], waiting: [0, 2] },
    ]);
    // The collective was scheduled, but not started.
    const queued = [record(0), record(1, { state: 'scheduled', startedAt: null, endedAt: null })];
    expect(troubles(waiting, queued, waiting)).toMatchObject([{ kind: 'missing', ranks: [1] }]);
    // The rank recorded nothing.
    expect(troubles([record(0, under)], [record(0, under)], [])).toMatchObject([{ ranks: [2], waiting: [0, 1] }]);
  });

  test('name a collective that did not complete on some ranks, and ranks that called a different collective', () => {
    const failed = record(5, { state: 'failed', endedAt: 9 });
    expect(troubles([failed], [failed], [failed])).toMatchObject([{ kind: 'stuck', ranks: [0, 1, 2] }]);
    const other = record(5, { ...under, call: 'broadcast(3 int32)' });
    expect(troubles([record(5, under)], [other], [record(5, under)])).toEqual([
      { kind: 'differs', seq: 5, calls: ['allReduce(10 float32, SUM)', 'broadcast(3 int32)'] },
    ]);
  });

  test('do not blame a rank for a collective that its recording does not cover, or whose group does not contain the rank', () => {
    const later = [record(0), record(1), record(2), record(3, under)];
    // This recording was made during collective no. 1.
    expect(troubles(later, [record(0), record(1, under)], later)).toEqual([]);
    // The older records were overwritten.
    const done = later.slice(0, 3);
    expect(troubles(done, done.slice(2), done)).toEqual([]);
    expect(
      recordedCollectives([recording(0, { records: later }), recording(1, { records: later.slice(2) })])[3],
    ).toMatchObject({
      seq: 0,
      states: ['completed', 'unknown', 'unknown'],
    });
    // The rank is not in the group of this collective.
    const side = record(0, { ...under, group: 1 });
    expect(troubles([record(0), side], [record(0)], [record(0), side])).toEqual([]);
  });

  test('detect missing ranks and recordings of other generations', () => {
    const [first, third] = [recording(0), recording(2)];
    expect(ranksWithoutRecording([first, third])).toEqual([1]);
    expect(canShowTogether(recording(1), [first, third])).toBe(true);
    expect(canShowTogether(recording(2), [first, third])).toBe(false);
    expect(canShowTogether(recording(1, { generation: 2 }), [first])).toBe(false);
  });

  test('convert times to the clock of the first recording, and leave out a rank if its clock was never compared', () => {
    const known = { offsetMs: 50, errorMs: 2 };
    const first = recording(0, { lanes: [lane(0, 100)], clocks: [null, known, null] });
    const second = recording(1, { lanes: [lane(0, 150)] });
    const third = recording(2, { lanes: [lane(0, 70)], clocks: [{ offsetMs: 30, errorMs: 3 }, null, null] });
    const { rows, errorMs } = mergeRecordedLanes([first, second, third]);
    expect(rows.map(({ steps }) => steps[0]?.startedAt)).toEqual([100, 100, 100]);
    expect(errorMs).toBe(3);
    // No rank has compared these two clocks.
    expect(mergeRecordedLanes([first, recording(2, { lanes: [lane(0, 70)] })]).rows[2]!.steps).toEqual([]);
  });
});
