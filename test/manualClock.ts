import type { Clock } from '../src/util/clock.ts';

/** A clock whose time only changes when a test advances it. */
export class ManualClock implements Clock {
  #now = 0;
  readonly #timers = new Set<{ at: number; fn: () => void }>();

  now(): number {
    return this.#now;
  }

  after(ms: number, fn: () => void): () => void {
    const timer = { at: this.#now + ms, fn };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Milliseconds until the next timer fires; `null` if there is no timer. */
  get untilNext(): number | null {
    return this.#timers.size === 0 ? null : Math.min(...[...this.#timers].map(({ at }) => at)) - this.#now;
  }

  /** Advances the time by `ms`. Timers fire in the order of their times. */
  advance(ms: number): void {
    const until = this.#now + ms;
    for (;;) {
      const due = [...this.#timers].filter((timer) => timer.at <= until).sort((a, b) => a.at - b.at)[0];
      if (due === undefined) break;
      this.#timers.delete(due);
      this.#now = due.at;
      due.fn();
    }
    this.#now = until;
  }
}
