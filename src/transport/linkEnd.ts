/**
 * What every end of a link does the same way: counting, queueing frames that come before their
 * handler, and closing once. An implementation adds how a frame goes (`dispatch`), and reports what
 * came and broke.
 */
import { asError, PeerGoneError } from '../util/errors.ts';
import { checkFrameSize, type Link, type LinkCounters, type LinkDescription, type LinkState } from './link.ts';

export abstract class LinkEnd implements Link {
  readonly #counters: LinkCounters = { framesSent: 0, bytesSent: 0, framesReceived: 0, bytesReceived: 0 };
  readonly #arrived: ArrayBuffer[] = [];
  #onframe: ((frame: ArrayBuffer) => void) | null = null;
  #onclose: ((error: Error | null) => void) | null = null;
  #closed: { error: Error | null } | null = null;

  /**
   * Sends the frame off, at once. Resolves when more may come; throws or rejects with {@link
   * goneError} where the link closes first.
   */
  protected abstract dispatch(frame: ArrayBuffer): Promise<void>;
  /** Lets go of what is beneath; called once. */
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

  close(): void {
    this.closed(null);
  }

  /** A frame has arrived. */
  protected arrived(frame: ArrayBuffer): void {
    if (this.#closed) return;
    this.#counters.framesReceived += 1;
    this.#counters.bytesReceived += frame.byteLength;
    if (this.#onframe && this.#arrived.length === 0) this.#onframe(frame);
    else this.#arrived.push(frame);
  }

  /** The link is gone, by our side's wish or not. */
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
