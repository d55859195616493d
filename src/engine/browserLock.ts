/** A lock that at most one tab of a browser holds, by name. The browser releases it when its tab is closed. */
import { deferred } from '../util/deferred.ts';

export class BrowserLock {
  readonly #name: string;
  readonly #released = deferred();
  #isReleased = false;
  /** Whether this tab holds it, once it does or while it asks. */
  #held: Promise<boolean> | null = null;

  constructor(name: string) {
    this.#name = name;
  }

  /**
   * Takes the lock unless another tab holds it, without waiting for that tab. Where the browser has no locks, as on pages that came over
   * plain http, every tab gets it.
   *
   * @returns whether this tab holds it.
   */
  async take(): Promise<boolean> {
    if (this.#isReleased) return false;
    this.#held ??= this.#ask();
    const isHeld = await this.#held;
    if (!isHeld) this.#held = null;
    return isHeld;
  }

  /** Lets another tab take the lock; this one never takes it again. Idempotent. */
  release(): void {
    this.#isReleased = true;
    this.#released.resolve();
  }

  #ask(): Promise<boolean> {
    if (!('locks' in navigator)) return Promise.resolve(true);
    return new Promise((resolve) => {
      navigator.locks
        .request(this.#name, { ifAvailable: true }, (lock) => {
          resolve(lock !== null);
          return lock === null ? undefined : this.#released.promise;
        })
        // Where locks are blocked, storage is too, and says so.
        .catch(() => resolve(true));
    });
  }
}
