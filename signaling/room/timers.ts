/** Deadlines of a room, and their timers. */
import { MIN_ACCUSERS, timesLate } from './faults.ts';
import type { RoomEffect, RoomState } from './state.ts';

/**
 * Milliseconds within which all members must link. This is less than the 16 s after which Chromium
 * ends a connection attempt, because people do not wait that long.
 */
export const LINKING_MS = 15_000;

/**
 * Milliseconds within which all members must build the model, share parameters and report. The time
 * is long, because compiling shaders takes seconds.
 */
export const SYNCING_MS = 120_000;

/**
 * Milliseconds within which a rank must end its work of the previous generation and enter SYNCING.
 * The first value is for ranks that were never reported as late, and is a little longer than the
 * deadline of a collective. The second value is for ranks that were reported as late once, and the
 * third for ranks that were reported as late more often.
 */
export const ENTERING_MS = [65_000, 20_000, 2_000] as const;

/**
 * Milliseconds from the start of a generation's training until newcomers may be added. The wait is
 * needed because each growth interrupts all ranks for a moment.
 */
export const COOLING_MS = 3_000;

/**
 * Duration of one ageing interval of faults in milliseconds. Faults are remembered for four to five
 * intervals. This is longer than the time until a collective misses its deadline.
 */
const AGE_FAULTS_MS = 60_000;

/**
 * Milliseconds for which a run waits if no member with the run's state is present. All such members
 * may have lost the network for a moment.
 */
export const ABANDONED_MS = 60_000;

export const CLEAR_GENERATION_TIMERS: readonly RoomEffect[] = (
  ['deadline', 'gathered', 'entering', 'grow'] as const
).map((key) => ({
  type: 'clearTimer',
  key,
}));

export const CLEAR_RUN_TIMERS: readonly RoomEffect[] = [
  ...CLEAR_GENERATION_TIMERS,
  { type: 'clearTimer', key: 'abandoned' },
];

export const AGE_FAULTS: RoomEffect = {
  type: 'setTimer',
  key: 'age-faults',
  ms: AGE_FAULTS_MS,
  event: { type: 'age-faults' },
};

export const GROW_LATER: RoomEffect = { type: 'setTimer', key: 'grow', ms: COOLING_MS, event: { type: 'grow' } };

export function deadlineOf({ generation, phase }: RoomState, ms: number): RoomEffect {
  return { type: 'setTimer', key: 'deadline', ms, event: { type: 'deadline', generation, phase } };
}

/**
 * Returns the time in milliseconds within which a rank must enter SYNCING. The shortest time
 * applies only if two other members reported in two generations that the rank was late. In a ring
 * of two ranks, reports of one member are enough.
 */
export function enteringMs({ faults, ring }: RoomState, member: string): number {
  const accusers = Math.min(MIN_ACCUSERS, ring.length - 1);
  const least = timesLate(faults, member, accusers) > 1 ? 2 : 1;
  return ENTERING_MS[Math.min(timesLate(faults, member), least)]!;
}

/**
 * Returns the timer for those ranks whose time limit ends next. `ms` is the time since all ranks
 * were linked.
 */
export function enteringOf(state: RoomState, ms: number): RoomEffect[] {
  const { ring, begun, generation } = state;
  const waiting = ring.map(({ member }) => member).filter((member) => ring.length > 1 && !begun.has(member));
  const times = waiting.map((member) => enteringMs(state, member)).filter((one) => one > ms);
  const next = Math.min(...times);
  const event = { type: 'entering', generation, ms: next } as const;
  return times.length === 0 ? [] : [{ type: 'setTimer', key: 'entering', ms: next - ms, event }];
}
