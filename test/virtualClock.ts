import { ManualClock } from './manualClock.ts';

/** Timers later than this are deadlines, which only pass if nothing else can happen. */
const DEADLINE_MS = 1000;

/**
 * A clock whose time passes only while nothing else happens: when all microtasks are done, the next
 * timer fires. Work takes no time, so measured times are exactly those of the timers.
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
