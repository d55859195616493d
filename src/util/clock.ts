/** Time as a dependency, so that tests control it. */
export interface Clock {
  /** Milliseconds from an arbitrary origin, never going back. */
  now(): number;
  /** Calls `fn` once after `ms` milliseconds; the returned function cancels it. */
  after(ms: number, fn: () => void): () => void;
}

/** Longest delay of a timer, milliseconds (24 days): setTimeout treats longer ones as 0. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => performance.now(),
  after(ms, fn) {
    const timer = setTimeout(fn, Math.min(ms, MAX_TIMER_MS));
    return () => clearTimeout(timer);
  },
};
