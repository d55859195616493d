/**
 * Pauses a run after ranks have compared their states, until a checkpoint of this state is saved.
 */
import type { Clock } from '../../util/clock.ts';
import { createDeferred, type Deferred } from '../../util/deferred.ts';

/**
 * The longest pause in milliseconds. A page that has saved nothing in this time is considered
 * closed.
 */
const PAUSE_MS = 10_000;

export class CheckpointBarrier {
  readonly #clock: Clock;
  #released = -1;
  #paused: { step: number; over: Deferred<void> } | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Prepares the barrier for the next run, whose steps start at 0. */
  reset(): void {
    this.#released = -1;
  }

  /**
   * Resolves when the state after `step`, or after a later step, is saved. Resolves immediately if
   * that has already happened, and at the latest after {@link PAUSE_MS}.
   */
  async until(step: number): Promise<void> {
    if (step <= this.#released) return;
    const over = createDeferred();
    this.#paused = { step, over };
    const cancel = this.#clock.after(PAUSE_MS, () => over.resolve());
    await over.promise;
    cancel();
    this.#paused = null;
  }

  release(step: number): void {
    this.#released = Math.max(this.#released, step);
    if (this.#paused && this.#paused.step <= step) this.#paused.over.resolve();
  }
}
