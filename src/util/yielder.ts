/**
 * Lets timers and messages have their turn amid long work: what waits for nothing but itself would
 * never let them.
 */
import type { Clock } from './clock.ts';

export class Yielder {
  readonly #clock: Clock;
  readonly #stretchMs: number;
  #last: number;

  /**
   * @param stretchMs of work between two turns. A turn takes up to 4 ms, as browsers have it of
   *   timers behind timers.
   */
  constructor(clock: Clock, stretchMs: number) {
    this.#clock = clock;
    this.#stretchMs = stretchMs;
    this.#last = clock.now();
  }

  /** Gives them a turn, if the last was long ago. */
  async yieldIfDue(): Promise<void> {
    if (this.#clock.now() - this.#last < this.#stretchMs) return;
    await new Promise<void>((resolve) => this.#clock.after(0, resolve));
    this.#last = this.#clock.now();
  }
}
