/** Pauses a run after a comparison of states until a checkpoint of that state is saved. */
import type { Clock } from '../../util/clock.ts';
import { deferred, type Deferred } from '../../util/deferred.ts';

/** Milliseconds that a run is paused: a page that has saved nothing by then is gone. */
const PAUSE_MS = 10_000;

export class CheckpointBarrier {
  readonly #clock: Clock;
  #released = -1;
  #paused: { step: number; over: Deferred<void> } | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Begins another run, whose steps are counted from 0 again. */
  reset(): void {
    this.#released = -1;
  }

  /**
   * Resolves once the state after `step` or a later one is saved, which may have happened before.
   */
  async until(step: number): Promise<void> {
    if (step <= this.#released) return;
    const over = deferred();
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
