/** Lets long work yield to timers and messages, which it would otherwise block. */
import type { Clock } from './clock.ts';

export class Yielder {
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
