/**
 * An end of a link over a channel of its own: waits below the mark of `link.ts`. An implementation
 * adds how a frame leaves (`transmit`), and reports what left.
 */
import { deferred, type Deferred } from '../util/deferred.ts';
import { HIGH_WATER_BYTES } from './link.ts';
import { LinkEnd } from './linkEnd.ts';

/** Of all frames that need not wait. */
const AT_ONCE = Promise.resolve();

export abstract class BaseLink extends LinkEnd {
  readonly #waiting: Deferred<void>[] = [];
  #queuedBytes = 0;

  /**
   * Sends the frame off. Whoever implements it calls `left(bytes)` once the frame no longer counts
   * as queued.
   */
  protected abstract transmit(frame: ArrayBuffer): void;

  protected dispatch(frame: ArrayBuffer): Promise<void> {
    this.#queuedBytes += frame.byteLength;
    this.transmit(frame);
    // Nobody would wake who waits on a link that broke over this very frame.
    if (this.state === 'closed') throw this.goneError();
    if (this.#queuedBytes < HIGH_WATER_BYTES) return AT_ONCE;
    const waiter = deferred();
    this.#waiting.push(waiter);
    return waiter.promise;
  }

  /** `bytes` of the queue have left. */
  protected left(bytes: number): void {
    this.#queuedBytes -= bytes;
    if (this.#waiting.length === 0 || this.#queuedBytes >= HIGH_WATER_BYTES) return;
    for (const waiter of this.#waiting.splice(0)) waiter.resolve();
  }

  protected override closed(error: Error | null): void {
    super.closed(error);
    for (const waiter of this.#waiting.splice(0)) waiter.reject(this.goneError());
  }
}
