/** The timeline: the steps of all ranks on one clock, and the visible window; pure. */
import { clamp } from '../../util/clamp.ts';
import type { StepSegment, StepSegmentKind, StepLane } from '../../protocol/stepTrace.ts';
import { STEP_SEGMENT_KINDS } from '../../spec/names.ts';
import type { RunView } from '../state/run.ts';

export interface TimelineRow {
  rank: number;
  name: string;
  /** Steps, whose `startedAt` is on the common clock of all rows. */
  steps: readonly StepLane[];
}

export interface RanksTimeline {
  rows: readonly TimelineRow[];
  /** The largest error that may remain after aligning the clocks of the rows, milliseconds. */
  errorMs: number;
}

/** A range of times on the common clock, milliseconds. */
export interface TimelineWindow {
  from: number;
  to: number;
}

export interface PickedSegment {
  rank: number;
  step: StepLane;
  segment: StepSegment;
}

/**
 * The number of steps that the timeline shows at first: two, so that they can be compared. In a
 * pipeline, it shows one step, because a step has many passes.
 */
const FIRST_LOOK = 2;
const FIRST_LOOK_AT_PIPELINE = 1;
/**
 * LEAST_MS is the shortest window, in milliseconds. MOST_SPANS is the longest window, as a multiple
 * of the range of all steps.
 */
const LEAST_MS = 0.2;
const MOST_SPANS = 1.25;

/** Kinds of work that a rank does alone, without other ranks. */
const ALONE: readonly StepSegmentKind[] = ['data', 'compute', 'readback', 'update', 'forward', 'backward'];

/** Returns the latest steps that ranks have reported. A rank without a clock offset has none. */
export function ranksTimelineOf({
  members,
  lanes,
  telemetry,
  rank: self,
}: globalThis.Pick<RunView, 'members' | 'lanes' | 'telemetry' | 'rank'>): RanksTimeline {
  const clocks = members.map((_, rank) => telemetry?.ranks[rank]?.clock ?? null);
  const rows = members.map(({ name }, rank) => {
    const clock = rank === self ? { offsetMs: 0 } : clocks[rank];
    return { rank, name, steps: clock ? shiftLaneTimes(lanes[rank] ?? [], clock.offsetMs) : [] };
  });
  return { rows, errorMs: Math.max(0, ...clocks.map((one) => one?.errorMs ?? 0)) };
}

/**
 * Converts the times of lanes to the clock of this rank. The clock of the lanes is ahead of this
 * rank's clock by `offsetMs`.
 */
export function shiftLaneTimes(lanes: readonly StepLane[], offsetMs: number): StepLane[] {
  return lanes.map((lane) => ({ ...lane, startedAt: lane.startedAt - offsetMs }));
}

/** Returns the range from the first step to the last one; `null` without steps. */
export function timelineExtentOf({ rows }: RanksTimeline): TimelineWindow | null {
  const steps = rows.flatMap((row) => row.steps);
  if (steps.length === 0) return null;
  return hull(steps);
}

function hull(steps: readonly StepLane[]): TimelineWindow {
  const from = Math.min(...steps.map((one) => one.startedAt));
  return { from, to: Math.max(from + LEAST_MS, ...steps.map((one) => one.startedAt + one.duration)) };
}

/** Returns the range of one step on all ranks; `null` if no rank has reported the step. */
export function timelineWindowOfStep({ rows }: RanksTimeline, step: number): TimelineWindow | null {
  const steps = rows.flatMap((row) => row.steps.filter((one) => one.step === step));
  if (steps.length === 0) return null;
  const { from, to } = hull(steps);
  const margin = (to - from) * 0.04;
  return { from: from - margin, to: to + margin };
}

export function newestTimelineWindow(timeline: RanksTimeline): TimelineWindow | null {
  const last = Math.max(-1, ...timeline.rows.map(({ steps }) => steps.at(-1)?.step ?? -1));
  const count = segmentKindsOf(timeline).includes('forward') ? FIRST_LOOK_AT_PIPELINE : FIRST_LOOK;
  const first = timelineWindowOfStep(timeline, Math.max(0, last - count + 1)) ?? timelineWindowOfStep(timeline, last);
  const end = timelineWindowOfStep(timeline, last);
  return first && end && { from: first.from, to: end.to };
}

/**
 * Returns the number of the step that contains the longest step of a single rank; `null` without
 * steps.
 */
export function slowestStep({ rows }: RanksTimeline): number | null {
  const steps = rows.flatMap((row) => row.steps);
  const slowest = steps.reduce<StepLane | null>(
    (most, one) => (one.duration > (most?.duration ?? -1) ? one : most),
    null,
  );
  return slowest?.step ?? null;
}

/**
 * Returns the window zoomed by `factor` around `at`. The middle of the window stays in the range of
 * all steps.
 */
export function zoomTimelineWindow(
  window: TimelineWindow,
  factor: number,
  at: number,
  extent: TimelineWindow,
): TimelineWindow {
  const all = (extent.to - extent.from) * MOST_SPANS;
  const length = clamp((window.to - window.from) / factor, LEAST_MS, all);
  const share = (at - window.from) / (window.to - window.from);
  return within({ from: at - share * length, to: at + (1 - share) * length }, extent);
}

/** Returns the window moved by `ms`. The middle of the window stays in the range of all steps. */
export function panTimelineWindow(window: TimelineWindow, ms: number, extent: TimelineWindow): TimelineWindow {
  return within({ from: window.from + ms, to: window.to + ms }, extent);
}

function within({ from, to }: TimelineWindow, extent: TimelineWindow): TimelineWindow {
  const length = to - from;
  const earliest = extent.from - length / 2;
  const latest = extent.to - length / 2;
  const start = clamp(from, earliest, latest);
  return { from: start, to: start + length };
}

/**
 * Returns the half of a row in which this kind of segment is drawn: the upper half for computation,
 * the lower half for communication.
 */
export function rowHalfOfSegmentKind(kind: StepSegmentKind): 'alone' | 'together' {
  return ALONE.includes(kind) ? 'alone' : 'together';
}

/**
 * Returns whether the step belongs to a pipeline. Segments of such a step do not overlap, so they
 * take the whole height of the row.
 */
export function isPipelineStep({ segments }: StepLane): boolean {
  return segments.some(({ pass }) => pass);
}

/**
 * Returns the kinds of segments that the newest steps may have, in the order of the legend. For a
 * pipeline, only the kinds that occur are returned.
 */
export function segmentKindsOf({ rows }: RanksTimeline): StepSegmentKind[] {
  const last = rows.flatMap(({ steps }) => steps.slice(-1));
  const found = new Set(last.flatMap(({ segments }) => segments.map(({ kind }) => kind)));
  const optional: readonly StepSegmentKind[] = ['exchange', 'forward', 'backward'];
  const isPipeline = last.some(isPipelineStep);
  return STEP_SEGMENT_KINDS.filter((kind) => found.has(kind) || !(isPipeline || optional.includes(kind)));
}

/**
 * Returns the segment of a rank at time `at` in this half of the row, or else the nearest segment
 * within `slack` milliseconds.
 */
export function pickSegmentAt(
  { rows }: RanksTimeline,
  rank: number,
  half: ReturnType<typeof rowHalfOfSegmentKind>,
  at: number,
  slack: number,
): PickedSegment | null {
  let nearest: { pick: PickedSegment; distance: number } | null = null;
  for (const step of rows[rank]?.steps ?? []) {
    if (at < step.startedAt - slack || at > step.startedAt + step.duration + slack) continue;
    for (const segment of step.segments) {
      if (rowHalfOfSegmentKind(segment.kind) !== half && !isPipelineStep(step)) continue;
      const start = step.startedAt + segment.start;
      const distance = Math.max(0, start - at, at - step.startedAt - segment.end);
      if (distance <= slack && distance < (nearest?.distance ?? Infinity)) {
        nearest = { pick: { rank, step, segment }, distance };
      }
    }
  }
  return nearest?.pick ?? null;
}

/**
 * Returns the next or the previous segment of the same rank, ordered by start; `null` if there is
 * none.
 */
export function adjacentTimelineSegmentOf(
  { rows }: RanksTimeline,
  { rank, step, segment }: PickedSegment,
  direction: 1 | -1,
): PickedSegment | null {
  const all = (rows[rank]?.steps ?? []).flatMap((one) =>
    one.segments.map((part) => ({ rank, step: one, segment: part })),
  );
  const at = all.findIndex((one) => one.step.step === step.step && one.segment === segment);
  return all[at + direction] ?? null;
}

/** For each kind of segment, returns the milliseconds that it takes in a step. */
export function segmentTotalsMs({ segments }: StepLane): Record<StepSegmentKind, number> {
  const totals = Object.fromEntries(STEP_SEGMENT_KINDS.map((kind) => [kind, 0])) as Record<StepSegmentKind, number>;
  for (const { kind, start, end } of segments) totals[kind] += end - start;
  return totals;
}
