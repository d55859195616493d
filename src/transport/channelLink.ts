/**
 * A link over a WebRTC data channel, on whichever thread the channel lives. docs/LIMITS.md lists
 * the numbers; the reasons stand beside each constant.
 */
import { systemClock } from '../util/clock.ts';
import { deferred } from '../util/deferred.ts';
import { asError, PeerGoneError, ProtocolError } from '../util/errors.ts';
import { BaseLink } from './baseLink.ts';
import { UNKNOWN_WAY, type Link, type LinkDescription } from './link.ts';

/**
 * Bytes handed to the channel before frames wait in our queue instead. Chromium closes nothing but
 * throws above 16 MiB; 1 MiB keeps its SCTP window (at most ~1 MiB) full.
 */
const CHANNEL_HIGH_BYTES = 1024 * 1024;
/** Refill when the channel has drained to this: far enough from zero that the wire never idles. */
const CHANNEL_LOW_BYTES = 256 * 1024;
/**
 * How long a link whose connection is gone waits for frames that came before: they reach this
 * thread by another way than the word of the end, and may be slower.
 */
const LAST_WORDS_MS = 50;

/** What a channel belongs to. It may live on another thread. */
export interface Connection {
  /** Called once when it has ended, or did not come about. */
  onclose: ((error: Error | null) => void) | null;
  describe(): Promise<LinkDescription>;
  /** Ends it, with all its channels. Idempotent. */
  close(): void;
}

class ChannelLink extends BaseLink {
  readonly #channel: RTCDataChannel;
  readonly #connection: Connection;
  readonly #queue: ArrayBuffer[] = [];

  constructor(channel: RTCDataChannel, connection: Connection) {
    super();
    this.#channel = channel;
    this.#connection = connection;
    channel.binaryType = 'arraybuffer';
    channel.bufferedAmountLowThreshold = CHANNEL_LOW_BYTES;
    channel.onbufferedamountlow = this.#drain;
    channel.onmessage = ({ data }: MessageEvent<unknown>) => this.#receive(data);
    channel.onerror = ({ error }) => this.closed(error);
    channel.onclose = () => this.closed(null);
    connection.onclose = (error) => systemClock.after(LAST_WORDS_MS, () => this.closed(error));
  }

  protected transmit(frame: ArrayBuffer): void {
    this.#queue.push(frame);
    this.#drain();
  }

  protected release(): void {
    this.#queue.length = 0;
    this.#connection.onclose = null;
    this.#channel.close();
    this.#connection.close();
  }

  describe(): Promise<LinkDescription> {
    return this.state === 'closed' ? Promise.resolve(UNKNOWN_WAY) : this.#connection.describe();
  }

  readonly #drain = (): void => {
    while (this.#queue.length > 0 && this.#channel.bufferedAmount < CHANNEL_HIGH_BYTES) {
      if (this.#channel.readyState !== 'open') return;
      const frame = this.#queue.shift()!;
      try {
        this.#channel.send(frame);
      } catch (error) {
        return this.closed(asError(error));
      }
      this.left(frame.byteLength);
    }
  };

  #receive(data: unknown): void {
    if (data instanceof ArrayBuffer) this.arrived(data);
    else this.closed(new ProtocolError('The other side sent text where only frames belong.'));
  }
}

/**
 * Resolves with a link over `channel` once that is open, which it is not yet. Rejects with
 * PeerGoneError where its connection does not come about.
 */
export function openChannelLink(channel: RTCDataChannel, connection: Connection): Promise<Link> {
  const opened = deferred<Link>();
  connection.onclose = (error) => {
    const why = error ? `The connection failed: ${error.message}` : 'The connection closed while it was opening.';
    opened.reject(new PeerGoneError(why));
  };
  channel.onopen = () => opened.resolve(new ChannelLink(channel, connection));
  return opened.promise;
}
