/** Lets timers and messages have their turn amid long work: what waits for nothing but itself would never let them. */
import type { Clock } from './clock.ts';

/** Milliseconds of work between two turns: a timer takes up to 4 ms of them, and who is not heard of for seconds is held to be gone. */
const STRETCH_MS = 200;

export class Turns {
  readonly #clock: Clock;
  #last: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#last = clock.now();
  }

  /** Gives them a turn, if the last was long ago. */
  async pass(): Promise<void> {
    if (this.#clock.now() - this.#last < STRETCH_MS) return;
    await new Promise((resolve) => setTimeout(resolve));
    this.#last = this.#clock.now();
  }
}
