import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { HopEvent, StepSegment, StepLane, StepTimes } from '../../src/protocol/stepTrace.ts';
import { oneForwardOneBackward, timePipelinePlan } from '../../src/parallel/pipeline/schedules.ts';
import { STEP_SEGMENT_KINDS } from '../../src/spec/names.ts';
import {
  exposedWaitMs,
  packedLaneLength,
  stepLaneOf,
  packStepLanes,
  pipelineStepSegmentCount,
  simplifyLane,
  MAX_SENT_SEGMENTS,
  unpackStepLanes,
} from '../../src/telemetry/stepLane.ts';

/** 20 ms of computing, 2 ms of reading, 6 ms of waiting for others, 2 ms of updating. */
const MS: StepTimes = { total: 30, data: 0, compute: 20, readback: 2, communicate: 6, exposed: 6, update: 2 };

function hop(planStep: number, sentAt: number, receivedAt: number, reduceMs: number): HopEvent {
  return { planStep, sentAt, receivedAt, reduceMs };
}

describe('the lane of a step', () => {
  test('has segments for computing, reading back, each chunk and updating, built backwards from the end of the step', () => {
    const trace = { startedAt: 1022, hops: [hop(0, 1022.5, 1025, 0.5), hop(1, 1025, 1028, 0)] };
    const lane = stepLaneOf({ step: 7, startedAt: 1000, ms: MS, traces: [trace] });
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
    expect(exposedWaitMs(lane, MS)).toBe(5);
  });

  test('shows sending instead of waiting if chunks arrive before a late rank sends', () => {
    const trace = { startedAt: 22, hops: [hop(0, 25, 24, 1)] };
    const { segments } = stepLaneOf({ step: 0, startedAt: 0, ms: MS, traces: [trace] });
    expect(segments.slice(2, -1)).toEqual([
      { kind: 'send', start: 22, end: 23 },
      { kind: 'reduce', start: 23, end: 24 },
      { kind: 'send', start: 24, end: 25 },
    ]);
  });

  test('shows exposed waiting only while the rank does nothing else', () => {
    const ms = { ...MS, readback: 5, communicate: 9, exposed: 6 };
    const lane = stepLaneOf({ step: 0, startedAt: 0, ms, traces: [{ startedAt: 19, hops: [hop(0, 19, 24, 0)] }] });
    expect(exposedWaitMs(lane, ms)).toBe(2);
  });

  test('shows one segment for the whole exchange if the times of chunks are unknown', () => {
    expect(kindsOf(MS)).toEqual(['compute', 'readback', 'exchange', 'update']);
    expect(kindsOf({ ...MS, communicate: 0, exposed: 0 })).not.toContain('exchange');
  });

  test('shows two concurrent buckets in one row; a wait of one is hidden by activity of the other', () => {
    const first = { startedAt: 10, hops: [hop(0, 10, 20, 0)] };
    const second = { startedAt: 12, hops: [hop(0, 14, 22, 1)] };
    const { segments } = stepLaneOf({ step: 0, startedAt: 0, ms: { ...MS, compute: 8 }, traces: [first, second] });
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
          .tuple(
            fc.constantFrom(...STEP_SEGMENT_KINDS.filter((kind) => kind !== 'forward' && kind !== 'backward')),
            fc.nat(20_000),
            fc.nat(20_000),
          )
          .map(([kind, start, length]) => ({ kind, start, end: start + length })),
        { maxLength: MAX_SENT_SEGMENTS },
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

function together({ segments }: StepLane): StepSegment[] {
  return segments.filter(({ kind }) => ['send', 'wait', 'reduce'].includes(kind));
}

function timedPass(kind: 'forward' | 'backward', microBatch: number, start: number, end: number) {
  return { kind, stage: 1, microBatch, start: 1000 + start, end: 1000 + end };
}

function passesOf({ segments }: StepLane): StepSegment[] {
  return segments.filter(({ pass }) => pass);
}

function namesOf(segments: readonly StepSegment[]): Pick<StepSegment, 'kind' | 'pass'>[] {
  return segments.map(({ kind, pass }) => ({ kind, ...(pass && { pass }) }));
}

function waitOf({ segments }: StepLane): number {
  return segments.reduce((sum, { kind, start, end }) => sum + (kind === 'wait' ? end - start : 0), 0);
}

function kindsOf(ms: StepTimes): string[] {
  return stepLaneOf({ step: 0, startedAt: 0, ms, traces: [null] }).segments.map(({ kind }) => kind);
}

test('packed lanes of the newest steps can be unpacked with an error of at most 0.01 ms', () => {
  fc.assert(
    fc.property(lanes, fc.integer({ min: 1, max: 16 }), (all, count) => {
      const packed = Float64Array.from(packStepLanes(all, count, MAX_SENT_SEGMENTS));
      expect(packed).toHaveLength(count * packedLaneLength(MAX_SENT_SEGMENTS));
      expect(unpackStepLanes(packed, MAX_SENT_SEGMENTS).map(round)).toEqual(all.slice(-count).map(round));
    }),
  );
});

test('a lane with too many segments is simplified, and still covers the same time', () => {
  const hops = Array.from({ length: 62 }, (_, i) => hop(i, 22 + i / 20, 22 + i / 20 + 0.04, 0.01));
  const lane = stepLaneOf({ step: 0, startedAt: 0, ms: MS, traces: [{ startedAt: 22, hops }] });
  expect(lane.segments.length).toBeGreaterThan(MAX_SENT_SEGMENTS);
  const told = simplifyLane(lane, MAX_SENT_SEGMENTS);
  expect(told.segments.length).toBeLessThanOrEqual(MAX_SENT_SEGMENTS);
  expect(told.segments.filter(({ kind }) => kind === 'compute')).toEqual([{ kind: 'compute', start: 0, end: 20 }]);
  expect(together(told).at(-1)!.end).toBeCloseTo(together(lane).at(-1)!.end, 6);
  expect(simplifyLane({ ...lane, segments: lane.segments.slice(0, 9) }, MAX_SENT_SEGMENTS).segments).toHaveLength(9);
});

describe("a step of a pipeline's rank", () => {
  const ms: StepTimes = { total: 50, data: 0, compute: 24, readback: 0, communicate: 22, exposed: 22, update: 4 };
  const passes = [
    timedPass('forward', 0, 5, 11),
    timedPass('forward', 1, 11, 17),
    timedPass('backward', 0, 20, 26),
    timedPass('backward', 1, 26, 32),
  ];
  const measured = { step: 3, startedAt: 1000, ms, traces: [], pipeline: { passes, exchangedAt: 1040 } };

  test('has the passes and the exchange of gradients of its rank, and waits in between', () => {
    const lane = stepLaneOf(measured);
    expect(lane.segments).toEqual([
      { kind: 'wait', start: 0, end: 5 },
      { kind: 'forward', start: 5, end: 11, pass: { stage: 1, microBatch: 0 } },
      { kind: 'forward', start: 11, end: 17, pass: { stage: 1, microBatch: 1 } },
      { kind: 'wait', start: 17, end: 20 },
      { kind: 'backward', start: 20, end: 26, pass: { stage: 1, microBatch: 0 } },
      { kind: 'backward', start: 26, end: 32, pass: { stage: 1, microBatch: 1 } },
      { kind: 'exchange', start: 32, end: 40 },
      { kind: 'wait', start: 40, end: 46 },
      { kind: 'update', start: 46, end: 50 },
    ]);
    expect(exposedWaitMs(lane, ms)).toBe(14);
  });

  test('has only waits and updates if its rank has no stage', () => {
    const { segments } = stepLaneOf({ ...measured, pipeline: { passes: [], exchangedAt: 1001 } });
    expect(segments.map(({ kind }) => kind)).toEqual(['wait', 'update']);
  });

  const counts = fc.tuple(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 40 }));

  test('can be unpacked with all its passes, even if the step takes an hour', () => {
    fc.assert(
      fc.property(counts, fc.double({ min: 1, max: 40_000, noNaN: true }), ([ranks, microBatches], passMs) => {
        const plan = oneForwardOneBackward(ranks, microBatches, { ring: true });
        const most = pipelineStepSegmentCount(plan.passes);
        for (const own of timePipelinePlan(plan, () => passMs)) {
          const total = (plan.ticks + 2 * microBatches) * passMs + 1;
          const pipeline = { passes: own, exchangedAt: total - 1 };
          const lane = stepLaneOf({ ...measured, startedAt: 0, ms: { ...ms, total, update: 1 }, pipeline });
          const [unpacked] = unpackStepLanes(Float64Array.from(packStepLanes([lane], 1, most)), most);
          expect(namesOf(passesOf(unpacked!))).toEqual(namesOf(passesOf(lane)));
          for (const [i, { start, end }] of passesOf(unpacked!).entries()) {
            const exact = passesOf(lane)[i]!;
            const error = Math.max(Math.abs(start - exact.start), Math.abs(end - exact.end));
            expect(error).toBeLessThanOrEqual(Math.max(0.01, total / 1e5));
          }
          expect(Math.abs(waitOf(unpacked!) - waitOf(lane)) / total).toBeLessThan(1e-3);
        }
      }),
      { numRuns: 30 },
    );
  });
});
