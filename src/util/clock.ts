/** Time as a value that is passed in, so that tests own it. */
export interface Clock {
  /** Milliseconds from an arbitrary origin, never going back. */
  now(): number;
  /** Calls `fn` once after `ms` milliseconds; the returned function cancels it. */
  after(ms: number, fn: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  after(ms, fn) {
    const timer = setTimeout(fn, ms);
    return () => clearTimeout(timer);
  },
};
