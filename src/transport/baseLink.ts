/**
 * Base class of link ends with a channel of their own. It applies backpressure above the limit in
 * `link.ts`. Subclasses send frames (`transmit`) and report when frames have left the queue
 * (`left`).
 */
import { deferred, type Deferred } from '../util/deferred.ts';
import { HIGH_WATER_BYTES } from './link.ts';
import { LinkEnd } from './linkEnd.ts';

/** Result of sends that do not have to wait. */
const AT_ONCE = Promise.resolve();

export abstract class BaseLink extends LinkEnd {
  readonly #waiting: Deferred<void>[] = [];
  /** Bytes of frames in the queue. */
  protected queuedBytes = 0;

  /**
   * Sends the frame. The implementation calls `left(bytes)` once the frame is no longer in the
   * queue.
   */
  protected abstract transmit(frame: ArrayBuffer): void;

  protected dispatch(frame: ArrayBuffer): Promise<void> {
    this.queuedBytes += frame.byteLength;
    this.transmit(frame);
    // A promise for a link that has just closed would never be settled.
    if (this.state === 'closed') throw this.goneError();
    if (this.queuedBytes < HIGH_WATER_BYTES) return AT_ONCE;
    const waiter = deferred();
    this.#waiting.push(waiter);
    return waiter.promise;
  }

  /** Reports that `bytes` have left the queue. */
  protected left(bytes: number): void {
    this.queuedBytes -= bytes;
    if (this.#waiting.length === 0 || this.queuedBytes >= HIGH_WATER_BYTES) return;
    for (const waiter of this.#waiting.splice(0)) waiter.resolve();
  }

  protected override closed(error: Error | null): void {
    super.closed(error);
    for (const waiter of this.#waiting.splice(0)) waiter.reject(this.goneError());
  }
}
