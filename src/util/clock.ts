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

/** Lets long work yield to timers and messages, which it would otherwise block. */
export class EventLoopYielder {
  readonly #clock: Clock;
  readonly #stretchMs: number;
  #last: number;

  /**
   * @param stretchMs milliseconds of work between two yields. A yield takes up to 4 ms, because
   *   browsers delay nested timers.
   */
  constructor(clock: Clock, stretchMs: number) {
    this.#clock = clock;
    this.#stretchMs = stretchMs;
    this.#last = clock.now();
  }

  /** Yields if the previous yield was at least `stretchMs` ago. */
  async yieldIfDue(): Promise<void> {
    if (this.#clock.now() - this.#last < this.#stretchMs) return;
    await new Promise<void>((resolve) => this.#clock.after(0, resolve));
    this.#last = this.#clock.now();
  }
}
