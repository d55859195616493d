import { ManualClock } from './manualClock.ts';

/** Timers with a longer delay are deadlines. They fire only if nothing else can happen. */
const DEADLINE_MS = 1000;

/**
 * A clock whose time advances only when there is nothing else to do: when all microtasks are done,
 * the next timer fires. Computation takes no time on this clock, so measured times depend only on
 * timers.
 */
export class VirtualClock extends ManualClock {
  #isRunning = true;

  constructor() {
    super();
    this.#passTime();
  }

  stop(): void {
    this.#isRunning = false;
  }

  #passTime(): void {
    setImmediate(() => {
      if (!this.#isRunning) return;
      const next = this.untilNext;
      if (next !== null && next < DEADLINE_MS) this.advance(next);
      this.#passTime();
    });
  }
}
