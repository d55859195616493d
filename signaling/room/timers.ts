/** How long a room waits for what, and the timers that do so. */
import { MIN_ACCUSERS, timesLate } from './faults.ts';
import type { RoomEffect, RoomState } from './state.ts';

/**
 * Milliseconds all members have to link: Chromium gives up a connection attempt after 16 s, people
 * after less.
 */
export const LINKING_MS = 15_000;

/**
 * Milliseconds all members have to build the model, share parameters and report: shaders compile
 * for seconds.
 */
export const SYNCING_MS = 120_000;

/**
 * Milliseconds that a rank may take to end what it did in the generation before and begin to
 * compare states: a little longer than a collective may take; less where others have waited for it
 * once before, or more than once.
 */
export const ENTERING_MS = [65_000, 20_000, 2_000] as const;

/**
 * Milliseconds between a generation's first step and the next newcomers: each growth costs all
 * ranks a moment.
 */
export const COOLING_MS = 3_000;

/**
 * Milliseconds after which faults are a little older. They are remembered for four to five times as
 * long, which is longer than an generation can take to fail by a collective's deadline.
 */
export const AGE_FAULTS_MS = 60_000;

/**
 * Milliseconds a run waits for a member that has its state: all may have lost the network for a
 * moment.
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
 * How long a rank may take to begin to compare states: the least time only where two others said
 * twice that it was late. Of two ranks there is one other.
 */
export function enteringMs({ faults, ring }: RoomState, member: string): number {
  const accusers = Math.min(MIN_ACCUSERS, ring.length - 1);
  const least = timesLate(faults, member, accusers) > 1 ? 2 : 1;
  return ENTERING_MS[Math.min(timesLate(faults, member), least)]!;
}

/** The timer for the next ranks whose time to begin is up, `ms` after all were linked. */
export function enteringOf(state: RoomState, ms: number): RoomEffect[] {
  const { ring, begun, generation } = state;
  const waiting = ring.map(({ member }) => member).filter((member) => ring.length > 1 && !begun.has(member));
  const times = waiting.map((member) => enteringMs(state, member)).filter((one) => one > ms);
  const next = Math.min(...times);
  const event = { type: 'entering', generation, ms: next } as const;
  return times.length === 0 ? [] : [{ type: 'setTimer', key: 'entering', ms: next - ms, event }];
}
