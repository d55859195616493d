/**
 * What every link does the same way: counting, queueing frames that come before their handler, waiting below the mark,
 * and closing once. An implementation adds how a frame leaves (`transmit`), and reports what left, came and broke.
 */
import { PeerGoneError } from '../util/errors.ts';
import { deferred, type Deferred } from '../util/deferred.ts';
import {
  checkFrameSize,
  HIGH_WATER_BYTES,
  type Link,
  type LinkCounters,
  type LinkDescription,
  type LinkState,
} from './link.ts';

export abstract class BaseLink implements Link {
  readonly #counters: LinkCounters = { framesSent: 0, bytesSent: 0, framesReceived: 0, bytesReceived: 0 };
  readonly #arrived: ArrayBuffer[] = [];
  readonly #waiting: Deferred<void>[] = [];
  #onframe: ((frame: ArrayBuffer) => void) | null = null;
  #onclose: ((error: Error | null) => void) | null = null;
  #closed: { error: Error | null } | null = null;
  #queuedBytes = 0;

  /** Sends the frame off. Whoever implements it calls `left(bytes)` once the frame no longer counts as queued. */
  protected abstract transmit(frame: ArrayBuffer): void;
  /** Lets go of the channel beneath; called once. */
  protected abstract release(): void;
  abstract describe(): Promise<LinkDescription>;

  get state(): LinkState {
    return this.#closed ? 'closed' : 'open';
  }

  get counters(): Readonly<LinkCounters> {
    return this.#counters;
  }

  get onframe(): ((frame: ArrayBuffer) => void) | null {
    return this.#onframe;
  }

  set onframe(handler: ((frame: ArrayBuffer) => void) | null) {
    this.#onframe = handler;
    // The handler may set another one, or none, between two frames: look again before each.
    while (this.#onframe && this.#arrived.length > 0) this.#onframe(this.#arrived.shift()!);
  }

  get onclose(): ((error: Error | null) => void) | null {
    return this.#onclose;
  }

  set onclose(handler: ((error: Error | null) => void) | null) {
    this.#onclose = handler;
    if (handler && this.#closed) handler(this.#closed.error);
  }

  async send(frame: ArrayBuffer): Promise<void> {
    checkFrameSize(frame);
    if (this.#closed) throw this.#goneError();
    const bytes = frame.byteLength;
    this.#queuedBytes += bytes;
    this.#counters.framesSent += 1;
    this.#counters.bytesSent += bytes;
    this.transmit(frame);
    // Nobody would wake who waits on a link that broke over this very frame.
    if (this.#closed) throw this.#goneError();
    if (this.#queuedBytes < HIGH_WATER_BYTES) return;
    const waiter = deferred();
    this.#waiting.push(waiter);
    await waiter.promise;
  }

  close(): void {
    this.closed(null);
  }

  /** `bytes` of the queue have left. */
  protected left(bytes: number): void {
    this.#queuedBytes -= bytes;
    if (this.#queuedBytes >= HIGH_WATER_BYTES) return;
    for (const waiter of this.#waiting.splice(0)) waiter.resolve();
  }

  /** A frame has arrived. */
  protected arrived(frame: ArrayBuffer): void {
    if (this.#closed) return;
    this.#counters.framesReceived += 1;
    this.#counters.bytesReceived += frame.byteLength;
    if (this.#onframe && this.#arrived.length === 0) this.#onframe(frame);
    else this.#arrived.push(frame);
  }

  /** The channel is gone, by our side's wish or not. */
  protected closed(error: Error | null): void {
    if (this.#closed) return;
    this.#closed = { error };
    this.release();
    for (const waiter of this.#waiting.splice(0)) waiter.reject(this.#goneError());
    this.#onclose?.(error);
  }

  #goneError(): PeerGoneError {
    const cause = this.#closed?.error;
    return new PeerGoneError(cause ? `The link is closed: ${cause.message}` : 'The link is closed.');
  }
}
