/**
 * Computes how long the player shows each step of a trace. The time is proportional to the duration
 * of the step, but long enough to be seen: one hop may take a tenth of a millisecond, and the next
 * hop, which waits for a straggler, fifty milliseconds. Pure.
 */
import { clamp } from '../../../util/clamp.ts';

/** Times of the played steps, in any unit. */
export interface PlayedStepTimes {
  duration: number;
  /** The times at which the transfers of each step leave, and at which all have arrived. */
  leaves: readonly number[];
  arrives: readonly number[];
}

export interface PlaybackPacing {
  /** Milliseconds to play the whole round at speed 1. */
  duration: number;
  /**
   * The factor by which the player slows down hops that are long enough to be seen. It slows down
   * shorter hops even more.
   */
  slowdown: number;
  /** Whether the player slows down some hops by more than `slowdown`. */
  stretched: boolean;
  /** The end of each step, as a position between 0 and 1. */
  ends: number[];
  timeline: PlayedStepTimes;
}

/**
 * Average milliseconds to play a step. It applies only while the length of the round is within its
 * limits.
 */
const STEP_MS = 750;
/**
 * The shortest and the longest time to play a round, in milliseconds. A round may exceed the
 * longest time if its very short steps are stretched.
 */
const SHORTEST_ROUND_MS = 4000;
const LONGEST_ROUND_MS = 20_000;
/** The shortest time to play a step, as a share of the average step. */
const LEAST_SHARE = 0.5;

export function planPlaybackPacing(timeline: PlayedStepTimes): PlaybackPacing {
  const { arrives, duration } = timeline;
  const steps = Math.max(1, arrives.length);
  const round = clamp(STEP_MS * steps, SHORTEST_ROUND_MS, LONGEST_ROUND_MS);
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

/**
 * Returns the time in the trace, in milliseconds since the all-reduce began, for a position between
 * 0 and 1.
 */
export function traceTimeAt({ ends, timeline }: PlaybackPacing, position: number): number {
  const step = ends.findIndex((end) => position < end);
  if (step < 0) return timeline.duration;
  const start = ends[step - 1] ?? 0;
  const from = timeline.arrives[step - 1] ?? 0;
  const share = (Math.max(0, position) - start) / (ends[step]! - start);
  return from + (timeline.arrives[step]! - from) * share;
}

/**
 * Returns the position (0 to 1) after `steps` steps. With `steps` = 2.5, two steps and half of the
 * third are done.
 */
export function playbackPositionAfterSteps({ ends }: PlaybackPacing, steps: number): number {
  const whole = clamp(Math.floor(steps), 0, ends.length);
  const start = ends[whole - 1] ?? 0;
  return start + ((ends[whole] ?? start) - start) * (steps - whole);
}

/**
 * Returns the number of steps that are done at `position`, including a fraction of the current
 * step. This is the inverse of {@link playbackPositionAfterSteps}.
 */
export function stepsDoneAtPosition({ ends }: PlaybackPacing, position: number): number {
  const step = ends.findIndex((end) => position < end);
  if (step < 0) return ends.length;
  const start = ends[step - 1] ?? 0;
  return step + Math.max(0, position - start) / (ends[step]! - start);
}

/**
 * Returns the positions where the player can stop: the start of the round, the middle of each
 * flight, and the end of the round.
 */
function stops({ ends, timeline: { leaves, arrives } }: PlaybackPacing): number[] {
  const middles = ends.map((end, step) => {
    const start = ends[step - 1] ?? 0;
    const from = arrives[step - 1] ?? 0;
    const whole = arrives[step]! - from;
    const middle = whole > 0 ? ((leaves[step]! + arrives[step]!) / 2 - from) / whole : 0.5;
    return start + (end - start) * middle;
  });
  return [0, ...middles, 1];
}

export function nextStopPosition(pacing: PlaybackPacing, position: number, direction: 1 | -1): number {
  const all = stops(pacing);
  const far = 1e-6;
  if (direction > 0) return all.find((stop) => stop > position + far) ?? 1;
  return all.findLast((stop) => stop < position - far) ?? 0;
}

/**
 * Returns the position to show to users who prefer reduced motion. It is the middle of the flight
 * in the current step, so the picture jumps once in each step. At the ends, it is 0 or 1.
 */
export function reducedMotionPosition(pacing: PlaybackPacing, position: number): number {
  if (position >= 1) return 1;
  const step = pacing.ends.findIndex((end) => end > position);
  return position <= 0 || step < 0 ? 0 : stops(pacing)[step + 1]!;
}
