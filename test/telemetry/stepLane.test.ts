import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { HopEvent, Segment, StepLane, StepTimes } from '../../src/protocol/stepTrace.ts';
import { SEGMENT_KINDS } from '../../src/spec/names.ts';
import {
  exposedWait,
  LANE_NUMBERS,
  laneOf,
  packLanes,
  simplify,
  SENT_SEGMENTS,
  unpackLanes,
} from '../../src/telemetry/stepLane.ts';

/** 20 ms of computing, 2 ms of reading, 6 ms of waiting for others, 2 ms of updating. */
const MS: StepTimes = { total: 30, compute: 20, readback: 2, communicate: 6, exposed: 6, update: 2 };

function hop(planStep: number, sentAt: number, receivedAt: number, reduceMs: number): HopEvent {
  return { planStep, sentAt, receivedAt, reduceMs };
}

describe('the lane of a step', () => {
  test('has segments for computing, reading back, each chunk and updating, and is built backwards from the end of the step', () => {
    const trace = { startedAt: 1022, hops: [hop(0, 1022.5, 1025, 0.5), hop(1, 1025, 1028, 0)] };
    const lane = laneOf({ step: 7, startedAt: 1000, ms: MS, traces: [trace] });
    expect(lane).toEqual({
      step: 7,
      startedAt: 1000,
      duration: 30,
      segments: [
        { kind: 'compute', start: 0, end: 20 },
        { kind: 'readback', start: 20, end: 22 },
        { kind: 'send', start: 22, end: 22.5 },
        { kind: 'wait', start: 22.5, end: 24.5 },
        { kind: 'reduce', start: 24.5, end: 25 },
        { kind: 'wait', start: 25, end: 28 },
        { kind: 'update', start: 28, end: 30 },
      ],
    });
    expect(exposedWait(lane, MS)).toBe(5);
  });

  test('shows sending and no waiting if the rank is so late that chunks arrive before it sends', () => {
    const trace = { startedAt: 22, hops: [hop(0, 25, 24, 1)] };
    const { segments } = laneOf({ step: 0, startedAt: 0, ms: MS, traces: [trace] });
    expect(segments.slice(2, -1)).toEqual([
      { kind: 'send', start: 22, end: 23 },
      { kind: 'reduce', start: 23, end: 24 },
      { kind: 'send', start: 24, end: 25 },
    ]);
  });

  test('has exposed waiting only where the rank does nothing else', () => {
    const ms = { ...MS, readback: 5, communicate: 9, exposed: 6 };
    const lane = laneOf({ step: 0, startedAt: 0, ms, traces: [{ startedAt: 19, hops: [hop(0, 19, 24, 0)] }] });
    expect(exposedWait(lane, ms)).toBe(2);
  });

  test('shows one segment for the whole exchange if it is unknown when each chunk was sent and received', () => {
    expect(kindsOf(MS)).toEqual(['compute', 'readback', 'exchange', 'update']);
    expect(kindsOf({ ...MS, communicate: 0, exposed: 0 })).not.toContain('exchange');
  });

  test("shows two concurrent buckets in one row, where a rank's activity hides its wait", () => {
    const first = { startedAt: 10, hops: [hop(0, 10, 20, 0)] };
    const second = { startedAt: 12, hops: [hop(0, 14, 22, 1)] };
    const { segments } = laneOf({ step: 0, startedAt: 0, ms: { ...MS, compute: 8 }, traces: [first, second] });
    expect(segments.filter(({ kind }) => ['send', 'wait', 'reduce'].includes(kind))).toEqual([
      { kind: 'wait', start: 10, end: 12 },
      { kind: 'send', start: 12, end: 14 },
      { kind: 'wait', start: 14, end: 21 },
      { kind: 'reduce', start: 21, end: 22 },
    ]);
  });
});

const lanes = fc.array(
  fc.record(
    {
      step: fc.nat(),
      startedAt: fc.double({ min: 0, max: 1e9, noNaN: true }),
      duration: fc.double({ min: 0, max: 40_000, noNaN: true }),
      commands: fc.record({ dispatches: fc.nat(), submits: fc.nat() }),
      segments: fc.array(
        fc
          .tuple(fc.constantFrom(...SEGMENT_KINDS), fc.nat(20_000), fc.nat(20_000))
          .map(([kind, start, length]) => ({ kind, start, end: start + length })),
        { maxLength: SENT_SEGMENTS },
      ),
    },
    // A lane has commands only if its rank computes on WebGPU.
    { requiredKeys: ['step', 'startedAt', 'duration', 'segments'] },
  ),
  { maxLength: 20 },
);

function round(lane: StepLane): StepLane {
  const segments = lane.segments.map(({ kind, start, end }) => ({
    kind,
    start: Math.round(start),
    end: Math.round(end),
  }));
  return { ...lane, segments };
}

function together({ segments }: StepLane): Segment[] {
  return segments.filter(({ kind }) => ['send', 'wait', 'reduce'].includes(kind));
}

function kindsOf(ms: StepTimes): string[] {
  return laneOf({ step: 0, startedAt: 0, ms, traces: [null] }).segments.map(({ kind }) => kind);
}

test('packed lanes of the newest steps are unpacked with an error of at most a hundredth of a millisecond', () => {
  fc.assert(
    fc.property(lanes, fc.integer({ min: 1, max: 16 }), (all, count) => {
      const packed = Float64Array.from(packLanes(all, count));
      expect(packed).toHaveLength(count * LANE_NUMBERS);
      expect(unpackLanes(packed).map(round)).toEqual(all.slice(-count).map(round));
    }),
  );
});

test('the lane of a step with too many segments is simplified, and still covers the same time', () => {
  const hops = Array.from({ length: 62 }, (_, i) => hop(i, 22 + i / 20, 22 + i / 20 + 0.04, 0.01));
  const lane = laneOf({ step: 0, startedAt: 0, ms: MS, traces: [{ startedAt: 22, hops }] });
  expect(lane.segments.length).toBeGreaterThan(SENT_SEGMENTS);
  const told = simplify(lane);
  expect(told.segments.length).toBeLessThanOrEqual(SENT_SEGMENTS);
  expect(told.segments.filter(({ kind }) => kind === 'compute')).toEqual([{ kind: 'compute', start: 0, end: 20 }]);
  expect(together(told).at(-1)!.end).toBeCloseTo(together(lane).at(-1)!.end, 6);
  expect(simplify({ ...lane, segments: lane.segments.slice(0, 9) }).segments).toHaveLength(9);
});
