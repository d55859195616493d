import { describe, expect, test } from 'vitest';
import { describeWorldChange } from '../../../src/app/charts/marks.ts';
import { createChromeTrace } from '../../../src/app/monitor/chromeTrace.ts';
import { writeCurvesCsv } from '../../../src/app/monitor/curvesCsv.ts';
import { mergeRecordedLanes, mergeRecordedTraces } from '../../../src/app/monitor/mergeRecordings.ts';
import { appendToCurve, emptyCurveSeries } from '../../../src/app/state/series.ts';
import type { AllReduceTraceRecord } from '../../../src/protocol/stepTrace.ts';
import { lane, recording } from './fixtures.ts';

describe('curves as CSV', () => {
  const points = [0, 1, 2].map((step) => ({ step, at: 50 * step, value: 2 / (step + 1) }));
  const change = { step: 1, at: 50, from: 2, to: 3, joined: ['a "b", c'], returned: [], left: [] };
  const run = {
    losses: points.reduce((series, point) => appendToCurve(series, point), emptyCurveSeries),
    evaluations: [{ step: 1, at: 50, loss: 1, metrics: { accuracy: 0.5 }, samples: 10 }],
    changes: [change],
    saves: [{ step: 2, at: 100 }],
    worldSize: 3,
  };

  test('have a column for each metric', () => {
    const metrics = { rmse: 1234.5, r2: 0.5 };
    const amounts = { ...run, evaluations: [{ step: 1, at: 50, loss: 1, metrics, samples: 10 }] };
    const [header, , second] = writeCurvesCsv(amounts, describeWorldChange).split('\r\n');
    expect([header, second]).toEqual([
      'step,time_s,loss,rmse,r2,world_size,event',
      expect.stringMatching(/^2,0.050,1,1234.5,0.5,/),
    ]);
  });

  test('have a header and a line per step, with line ends and quotes as in RFC 4180', () => {
    expect(writeCurvesCsv(run, describeWorldChange)).toBe(
      [
        'step,time_s,loss,accuracy,world_size,event',
        '1,0.000,2,,2,',
        '2,0.050,1,0.5,3,"a ""b"", c joined"',
        '3,0.100,0.6666666666666666,,3,checkpoint',
        '',
      ].join('\r\n'),
    );
  });

  test('of a long run have a line for each mean of several steps, and a last line for steps that have no mean yet', () => {
    const { losses } = run;
    const long = { ...run, losses: { stride: 4, points: losses.points.slice(0, 1), pending: losses.points.slice(1) } };
    const lines = writeCurvesCsv({ ...long, evaluations: [], changes: [], saves: [] }, describeWorldChange).split(
      '\r\n',
    );
    expect(lines.slice(1)).toEqual(['1,0.000,2,,3,', `3,0.100,${(1 + 2 / 3) / 2},,3,`, '']);
  });
});

/** Returns a trace in which one chunk is sent at once and one chunk arrives. */
function trace(startedAt: number, receivedAt: number): AllReduceTraceRecord {
  const hop = { planStep: 0, sentAt: startedAt, receivedAt };
  return { step: 4, bucket: 0, bytes: 8, algorithm: 'ring', startedAt, hops: [hop] };
}

describe('a timeline as a Chrome trace', () => {
  const clocks = [
    { offsetMs: 0, errorMs: 0 },
    { offsetMs: 1000, errorMs: 2 },
  ];
  const recordings = [
    recording(0, { worldSize: 2, clocks, lanes: [lane(4, 100)], traces: [trace(110, 114)] }),
    // The clock of this rank is one second ahead.
    recording(1, { worldSize: 2, lanes: [lane(4, 1101)], traces: [trace(1111, 1112)] }),
  ];
  const { traceEvents, displayTimeUnit } = createChromeTrace(
    mergeRecordedLanes(recordings),
    mergeRecordedTraces(recordings),
  );

  test('has a named process per rank with two threads', () => {
    expect(displayTimeUnit).toBe('ms');
    const names = traceEvents.filter(({ ph, name }) => ph === 'M' && name !== 'process_sort_index');
    expect(names.map(({ name, pid, tid, args }) => [name, pid, tid, args!['name']])).toEqual([
      ['process_name', 0, 0, 'rank 0'],
      ['thread_name', 0, 1, 'compute'],
      ['thread_name', 0, 2, 'communicate'],
      ['process_name', 1, 0, 'rank 1'],
      ['thread_name', 1, 1, 'compute'],
      ['thread_name', 1, 2, 'communicate'],
    ]);
  });

  test('has an event for each segment, with times in whole microseconds on the clock of rank 0', () => {
    const complete = traceEvents.filter(({ ph }) => ph === 'X');
    expect(complete.map(({ name, pid, tid, ts, dur }) => [name, pid, tid, ts, dur])).toEqual([
      ['compute', 0, 1, 0, 10_000],
      ['wait', 0, 2, 10_000, 5000],
      ['compute', 1, 1, 1000, 10_000],
      ['wait', 1, 2, 11_000, 5000],
    ]);
  });

  test('has an arrow for every chunk, from the time of sending to the time of receipt', () => {
    const flows = traceEvents.filter(({ ph }) => ph === 's' || ph === 'f');
    expect(flows.map(({ ph, pid, ts, id }) => [ph, pid, ts, id])).toEqual([
      ['s', 0, 10_000, '4.0.0.0'],
      ['f', 1, 12_000, '4.0.0.0'],
      ['s', 1, 11_000, '4.0.0.1'],
      ['f', 0, 14_000, '4.0.0.1'],
    ]);
    expect(flows.filter(({ ph }) => ph === 'f').every(({ bp }) => bp === 'e')).toBe(true);
  });
});
