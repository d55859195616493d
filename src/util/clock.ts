/** A clock with timers. It is passed as a dependency, so that tests control the time. */
export interface Clock {
  /** Returns milliseconds since an arbitrary origin. The time never goes back. */
  now(): number;
  /** Calls `fn` once after `ms` milliseconds; the returned function cancels it. */
  after(ms: number, fn: () => void): () => void;
}

/**
 * The longest delay of a timer in milliseconds (24 days). setTimeout treats a longer delay as 0.
 */
const MAX_TIMER_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => performance.now(),
  after(ms, fn) {
    const timer = setTimeout(fn, Math.min(ms, MAX_TIMER_MS));
    return () => clearTimeout(timer);
  },
};
