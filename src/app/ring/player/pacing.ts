/**
 * The displayed length of each ring step of a trace: proportional to its duration, but long enough
 * to be seen (one hop may take a tenth of a millisecond and the next, behind a straggler, fifty);
 * pure.
 */
import type { Timeline } from '../frameAt.ts';

export interface Pacing {
  /** Milliseconds to play the whole round at speed 1. */
  duration: number;
  /** Slowdown of the longest hops; shorter ones are shown slower still. */
  slowdown: number;
  /** Whether some hops are shown slower than that. */
  stretched: boolean;
  /** End of each ring step, 0 .. 1 of the time played. */
  ends: number[];
  timeline: Timeline;
}

/** Usual time to play a ring step, milliseconds. */
const STEP_MS = 750;
/** Limits of the time to play a round of even steps, milliseconds. */
const SHORTEST_ROUND_MS = 4000;
const LONGEST_ROUND_MS = 20_000;
/** Least time for one ring step, as a share of that in an even round. */
const LEAST_SHARE = 0.5;

export function planPacing(timeline: Timeline): Pacing {
  const { arrives, duration } = timeline;
  const steps = Math.max(1, arrives.length);
  const round = Math.min(LONGEST_ROUND_MS, Math.max(SHORTEST_ROUND_MS, STEP_MS * steps));
  const slowdown = duration > 0 ? round / duration : 0;
  const least = (LEAST_SHARE * round) / steps;
  const times = arrives.map((arrive, i) => (arrive - (arrives[i - 1] ?? 0)) * slowdown);
  let sum = 0;
  const sums = times.map((ms) => (sum += Math.max(least, ms)));
  return {
    duration: sum,
    slowdown,
    stretched: times.some((ms) => ms < least * 0.999),
    ends: sums.map((ms) => (sum > 0 ? ms / sum : 1)),
    timeline,
  };
}

/** Time of the trace, milliseconds since the all-reduce began, at `position` (0 .. 1). */
export function timeAt({ ends, timeline }: Pacing, position: number): number {
  const step = ends.findIndex((end) => position < end);
  if (step < 0) return timeline.duration;
  const start = ends[step - 1] ?? 0;
  const from = timeline.arrives[step - 1] ?? 0;
  const share = (Math.max(0, position) - start) / (ends[step]! - start);
  return from + (timeline.arrives[step]! - from) * share;
}

/** Position after `steps` ring steps, 0 .. 1; a fraction is the part of the next one. */
export function positionOf({ ends }: Pacing, steps: number): number {
  const whole = Math.min(ends.length, Math.max(0, Math.floor(steps)));
  const start = ends[whole - 1] ?? 0;
  return start + ((ends[whole] ?? start) - start) * (steps - whole);
}

/** Ring steps done at `position`: the inverse. */
export function stepsAt({ ends }: Pacing, position: number): number {
  const step = ends.findIndex((end) => position < end);
  if (step < 0) return ends.length;
  const start = ends[step - 1] ?? 0;
  return step + Math.max(0, position - start) / (ends[step]! - start);
}

/** Positions to stop at: the start, the middle of each flight, the end. */
function stops({ ends, timeline: { leaves, arrives } }: Pacing): number[] {
  const middles = ends.map((end, step) => {
    const start = ends[step - 1] ?? 0;
    const from = arrives[step - 1] ?? 0;
    const whole = arrives[step]! - from;
    const middle = whole > 0 ? ((leaves[step]! + arrives[step]!) / 2 - from) / whole : 0.5;
    return start + (end - start) * middle;
  });
  return [0, ...middles, 1];
}

export function nextStop(pacing: Pacing, position: number, direction: 1 | -1): number {
  const all = stops(pacing);
  const far = 1e-6;
  if (direction > 0) return all.find((stop) => stop > position + far) ?? 1;
  return all.findLast((stop) => stop < position - far) ?? 0;
}

/** Position with less motion: discrete steps. */
export function snap(pacing: Pacing, position: number): number {
  if (position >= 1) return 1;
  const step = pacing.ends.findIndex((end) => end > position);
  return position <= 0 || step < 0 ? 0 : stops(pacing)[step + 1]!;
}
