/** Deadlines of a room, and their timers. */
import { MIN_ACCUSERS, timesLate } from './faults.ts';
import type { RoomEffect, RoomState } from './state.ts';

/**
 * Milliseconds for all members to link: Chromium ends a connection attempt after 16 s, and people
 * wait less.
 */
export const LINKING_MS = 15_000;

/**
 * Milliseconds for all members to build the model, share parameters and report: shaders compile for
 * seconds.
 */
export const SYNCING_MS = 120_000;

/**
 * Milliseconds for a rank to end its work of the previous generation and enter SYNCING: a little
 * longer than the deadline of a collective; less if other ranks have waited for it once, or more
 * often.
 */
export const ENTERING_MS = [65_000, 20_000, 2_000] as const;

/**
 * Milliseconds between a generation's first step and the next newcomers: each growth interrupts all
 * ranks for a moment.
 */
export const COOLING_MS = 3_000;

/**
 * Milliseconds of one ageing interval of faults. They are remembered for four to five intervals,
 * which is longer than a generation can take to fail by a collective's deadline.
 */
export const AGE_FAULTS_MS = 60_000;

/**
 * Milliseconds in which a run waits for a member with its state: all may have lost the network for
 * a moment.
 */
export const ABANDONED_MS = 60_000;

export const GENERATION_OVER: readonly RoomEffect[] = (['deadline', 'gathered', 'entering', 'grow'] as const).map(
  (key) => ({
    type: 'clearTimer',
    key,
  }),
);

export const NO_TIMERS: readonly RoomEffect[] = [...GENERATION_OVER, { type: 'clearTimer', key: 'abandoned' }];

export const AGE_FAULTS: RoomEffect = {
  type: 'setTimer',
  key: 'age-faults',
  ms: AGE_FAULTS_MS,
  event: { type: 'age-faults' },
};

export function deadlineOf({ generation, phase }: RoomState, ms: number): RoomEffect {
  return { type: 'setTimer', key: 'deadline', ms, event: { type: 'deadline', generation, phase } };
}

/**
 * Time for a rank to enter SYNCING; the shortest only if two others reported twice that it was
 * late. In a ring of two ranks one other is enough.
 */
export function enteringMs({ faults, ring }: RoomState, member: string): number {
  const accusers = Math.min(MIN_ACCUSERS, ring.length - 1);
  const least = timesLate(faults, member, accusers) > 1 ? 2 : 1;
  return ENTERING_MS[Math.min(timesLate(faults, member), least)]!;
}

/** The timer for the next ranks whose time to enter ends, `ms` after all were linked. */
export function enteringOf(state: RoomState, ms: number): RoomEffect[] {
  const { ring, begun, generation } = state;
  const waiting = ring.map(({ member }) => member).filter((member) => ring.length > 1 && !begun.has(member));
  const times = waiting.map((member) => enteringMs(state, member)).filter((one) => one > ms);
  const next = Math.min(...times);
  const event = { type: 'entering', generation, ms: next } as const;
  return times.length === 0 ? [] : [{ type: 'setTimer', key: 'entering', ms: next - ms, event }];
}
