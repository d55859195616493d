/**
 * Base class of every link end. It has counters and a queue for frames that arrive before a handler
 * is set, and makes sure that a link closes only once. Subclasses send frames (`dispatch`), and
 * report arrivals and failures.
 */
import { createDeferred, type Deferred } from '../util/deferred.ts';
import { asError, PeerGoneError, ProtocolError } from '../util/errors.ts';
import {
  checkFrameSize,
  HIGH_WATER_BYTES,
  queuedFrameBytesOf,
  type Link,
  type LinkTrafficCounters,
  type LinkDescription,
  type LinkState,
} from './link.ts';

const MIB = 1024 * 1024;
/**
 * Maximum number of bytes that wait for a handler. Between the handshake and the start of its
 * process group, a rank may receive everything that the other rank may send ahead: the collectives
 * and messages of one group (`MAX_UNEXPECTED_COLLECTIVE_BYTES`, `MAX_UNEXPECTED_MESSAGE_BYTES`),
 * and a smaller amount for other groups.
 */
const MAX_ARRIVED_BYTES = 64 * MIB;

export abstract class LinkEnd implements Link {
  onstall: ((isStalled: boolean) => void) | null = null;
  readonly #counters: LinkTrafficCounters = { framesSent: 0, bytesSent: 0, framesReceived: 0, bytesReceived: 0 };
  /** Frames that wait for a handler, in order. */
  readonly #arrived = new Set<ArrayBuffer>();
  #arrivedBytes = 0;
  #onframe: ((frame: ArrayBuffer) => void) | null = null;
  #onclose: ((error: Error | null) => void) | null = null;
  #closed: { error: Error | null } | null = null;

  /**
   * Sends the frame, or queues it for sending. Resolves when more frames may be sent; throws or
   * rejects with {@link goneError} if the link closes first.
   */
  protected abstract dispatch(frame: ArrayBuffer): Promise<void>;
  /** Releases the underlying resources; called once. */
  protected abstract release(): void;
  abstract describe(): Promise<LinkDescription>;

  get state(): LinkState {
    return this.#closed ? 'closed' : 'open';
  }

  get counters(): Readonly<LinkTrafficCounters> {
    return this.#counters;
  }

  get onframe(): ((frame: ArrayBuffer) => void) | null {
    return this.#onframe;
  }

  set onframe(handler: ((frame: ArrayBuffer) => void) | null) {
    this.#onframe = handler;
    // The handler may be replaced or removed between two frames, so it is read before each frame.
    for (const frame of this.#arrived) {
      if (!this.#onframe) return;
      this.#arrived.delete(frame);
      this.#arrivedBytes -= queuedFrameBytesOf(frame);
      this.#onframe(frame);
    }
  }

  get onclose(): ((error: Error | null) => void) | null {
    return this.#onclose;
  }

  set onclose(handler: ((error: Error | null) => void) | null) {
    this.#onclose = handler;
    if (handler && this.#closed) handler(this.#closed.error);
  }

  send(frame: ArrayBuffer): Promise<void> {
    try {
      checkFrameSize(frame);
      if (this.#closed) throw this.goneError();
      this.#counters.framesSent += 1;
      this.#counters.bytesSent += frame.byteLength;
      return this.dispatch(frame);
    } catch (error) {
      return Promise.reject(asError(error));
    }
  }

  /** Frames that have arrived, but that no handler has received, are dropped. */
  close(): void {
    this.#arrived.clear();
    this.closed(null);
  }

  /** Reports a frame that has arrived. */
  protected arrived(frame: ArrayBuffer): void {
    if (this.#closed) return;
    this.#counters.framesReceived += 1;
    this.#counters.bytesReceived += frame.byteLength;
    if (this.#onframe && this.#arrived.size === 0) return this.#onframe(frame);
    this.#arrived.add(frame);
    this.#arrivedBytes += queuedFrameBytesOf(frame);
    if (this.#arrivedBytes <= MAX_ARRIVED_BYTES) return;
    this.#arrived.clear();
    this.closed(
      new ProtocolError(
        `The other rank sent more than ${MAX_ARRIVED_BYTES / MIB} MiB before this rank's process group had begun.`,
      ),
    );
  }

  /** Reports that the link is closed, intentionally or not. */
  protected closed(error: Error | null): void {
    if (this.#closed) return;
    this.#closed = { error };
    this.release();
    this.#onclose?.(error);
  }

  protected goneError(): PeerGoneError {
    const cause = this.#closed?.error;
    return new PeerGoneError(cause ? `The link is closed: ${cause.message}` : 'The link is closed.');
  }
}

/** Result of sends that do not have to wait. */
const AT_ONCE = Promise.resolve();

/**
 * Base class of link ends with a channel of their own. It applies backpressure above the limit in
 * `link.ts`. Subclasses send frames (`transmit`) and report when frames have left the queue
 * (`left`).
 */
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
    // If the link has just closed, the promise below would never settle.
    if (this.state === 'closed') throw this.goneError();
    if (this.queuedBytes < HIGH_WATER_BYTES) return AT_ONCE;
    const waiter = createDeferred();
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
