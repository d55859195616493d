import { describe, expect, test } from 'vitest';
import { createChromeTrace } from '../../../src/app/monitor/chromeTrace.ts';
import { tickSpacingMs } from '../../../src/app/monitor/drawTimeline.ts';
import {
  timelineExtentOf,
  segmentKindsOf,
  adjacentTimelineSegmentOf,
  newestTimelineWindow,
  panTimelineWindow,
  pickSegmentAt,
  slowestStep,
  ranksTimelineOf,
  segmentTotalsMs,
  timelineWindowOfStep,
  zoomTimelineWindow,
  type RanksTimeline,
} from '../../../src/app/monitor/timeline.ts';
import type { RankTelemetry } from '../../../src/protocol/events.ts';
import { stepLaneOf } from '../../../src/telemetry/stepLane.ts';
import { member } from '../events.ts';
import { lane } from './fixtures.ts';

const timeline: RanksTimeline = {
  rows: [
    { rank: 0, name: 'ada', steps: [lane(0, 100), lane(1, 120), { ...lane(2, 140), duration: 40 }] },
    { rank: 1, name: 'ben', steps: [lane(0, 101), lane(1, 121), lane(2, 141)] },
  ],
  errorMs: 1,
};

function reportOf(rank: number, clock: RankTelemetry['clock']): RankTelemetry {
  return { rank, isHidden: false, waitMs: 0, right: null, lanes: [], clock };
}

test('the lanes of a run have times on the clock of this rank; the lane of a rank with an unknown clock is empty', () => {
  const run = {
    members: ['ada', 'ben', 'cleo'].map((name) => member(name)),
    rank: 1,
    lanes: [[lane(0, 1000)], [lane(0, 10)], [lane(0, 5)]],
    telemetry: {
      step: 0,
      ranks: [reportOf(0, { offsetMs: 990, errorMs: 2 }), reportOf(1, { offsetMs: 0, errorMs: 0 }), reportOf(2, null)],
    },
  };
  const { rows, errorMs } = ranksTimelineOf(run);
  expect(rows.map(({ steps }) => steps.map(({ startedAt }) => startedAt))).toEqual([[10], [10], []]);
  expect(errorMs).toBe(2);
  // Nothing is known before the first telemetry.
  expect(timelineExtentOf(ranksTimelineOf({ ...run, lanes: [], telemetry: null }))).toBeNull();
});

describe('the visible part of a timeline', () => {
  test('can be the latest steps, a single step, or all steps', () => {
    expect(timelineExtentOf(timeline)).toEqual({ from: 100, to: 180 });
    expect(slowestStep(timeline)).toBe(2);
    const step = timelineWindowOfStep(timeline, 2)!;
    expect(step.from).toBeCloseTo(138.4);
    expect(step.to).toBeCloseTo(181.6);
    expect(newestTimelineWindow(timeline)!.from).toBeLessThan(120);
    expect(newestTimelineWindow(timeline)!.to).toBeCloseTo(step.to);
    expect(timelineWindowOfStep(timeline, 7)).toBeNull();
  });

  test('keeps a given time at the same position during zooming, and cannot be zoomed or panned beyond its limits', () => {
    const extent = timelineExtentOf(timeline)!;
    const near = zoomTimelineWindow({ from: 100, to: 180 }, 2, 120, extent);
    expect(near).toEqual({ from: 110, to: 150 });
    const far = zoomTimelineWindow(near, 1e-6, 120, extent);
    expect(far.to - far.from).toBeCloseTo(100);
    const close = zoomTimelineWindow(near, 1e9, 120, extent);
    expect(close.to - close.from).toBeCloseTo(0.2);
    expect(panTimelineWindow(near, 1e6, extent)).toEqual({ from: 160, to: 200 });
    expect(panTimelineWindow(near, -1e6, extent)).toEqual({ from: 80, to: 120 });
  });
});

describe('a segment of a timeline', () => {
  test('is found by its rank, its kind (computation or communication) and a time in or near the segment', () => {
    expect(pickSegmentAt(timeline, 0, 'alone', 105, 0)?.segment.kind).toBe('compute');
    expect(pickSegmentAt(timeline, 0, 'together', 105, 0)).toBeNull();
    expect(pickSegmentAt(timeline, 0, 'together', 109, 2)?.segment).toEqual({ kind: 'wait', start: 10, end: 15 });
    expect(pickSegmentAt(timeline, 1, 'together', 135, 0)?.step.step).toBe(1);
    expect(pickSegmentAt(timeline, 5, 'alone', 105, 9)).toBeNull();
  });

  test('has a previous and a next segment, possibly in another step', () => {
    const first = pickSegmentAt(timeline, 1, 'alone', 105, 0)!;
    expect(adjacentTimelineSegmentOf(timeline, first, -1)).toBeNull();
    const wait = adjacentTimelineSegmentOf(timeline, first, 1)!;
    expect(wait.segment.kind).toBe('wait');
    expect(adjacentTimelineSegmentOf(timeline, wait, 1)).toMatchObject({
      step: { step: 1 },
      segment: { kind: 'compute' },
    });
  });
});

test('segmentTotalsMs adds up the times of a step for each kind of segment', () => {
  expect(segmentTotalsMs(lane(0, 0))).toMatchObject({ compute: 10, wait: 5, send: 0 });
});

test('the distance between two ticks of the time axis is a round number', () => {
  expect(tickSpacingMs(100, 10)).toBe(10);
  expect(tickSpacingMs(130, 10)).toBe(20);
  expect(tickSpacingMs(0.9, 3)).toBeCloseTo(0.5);
  expect(tickSpacingMs(7, 1)).toBe(10);
});

describe('the timeline of a pipeline', () => {
  const passes = [
    { kind: 'forward', stage: 1, microBatch: 0, start: 4, end: 8 },
    { kind: 'backward', stage: 1, microBatch: 0, start: 10, end: 14 },
  ] as const;
  const ms = { total: 20, data: 0, compute: 8, readback: 0, communicate: 10, exposed: 10, update: 2 };
  const step = stepLaneOf({ step: 3, startedAt: 0, ms, traces: [], pipeline: { passes, exchangedAt: 15 } });
  const pipeline: RanksTimeline = { rows: [{ rank: 0, name: 'ada', steps: [step] }], errorMs: 0 };

  test('has a legend with the activities that occur; the legend of other runs has no passes', () => {
    expect(segmentKindsOf(pipeline)).toEqual(['update', 'wait', 'exchange', 'forward', 'backward']);
    expect(segmentKindsOf(timeline)).not.toContain('forward');
    expect(segmentKindsOf(timeline)).toContain('reduce');
  });

  test('shows passes and waits over the whole height of a lane', () => {
    for (const half of ['alone', 'together'] as const) {
      expect(pickSegmentAt(pipeline, 0, half, 5, 0)?.segment).toMatchObject({
        kind: 'forward',
        pass: { microBatch: 0 },
      });
      expect(pickSegmentAt(pipeline, 0, half, 9, 0)?.segment.kind).toBe('wait');
    }
  });

  test('names the micro-batch of each pass in a trace for Perfetto', () => {
    const named = createChromeTrace(pipeline).traceEvents.filter(({ ph }) => ph === 'X');
    expect(named.find(({ name }) => name === 'backward 0')?.args).toEqual({ step: 4, stage: 1, microBatch: 0 });
  });
});
