/** Holds a run after a comparison of ranks until somebody has kept what it is then. */
import type { Clock } from '../../util/clock.ts';
import { deferred, type Deferred } from '../../util/deferred.ts';

/** Milliseconds that a run is held: who keeps nothing by then has gone. */
const HOLD_MS = 10_000;

export class CheckpointBarrier {
  readonly #clock: Clock;
  #released = -1;
  #held: { step: number; over: Deferred<void> } | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Begins another run, whose steps are counted from 0 again. */
  reset(): void {
    this.#released = -1;
  }

  /**
   * Resolves once the run's state after `step`, or after a later one, is kept, which may have been
   * before.
   */
  async until(step: number): Promise<void> {
    if (step <= this.#released) return;
    const over = deferred();
    this.#held = { step, over };
    const cancel = this.#clock.after(HOLD_MS, () => over.resolve());
    await over.promise;
    cancel();
    this.#held = null;
  }

  release(step: number): void {
    this.#released = Math.max(this.#released, step);
    if (this.#held && this.#held.step <= step) this.#held.over.resolve();
  }
}
