/**
 * A link over a WebRTC data channel, on the thread that owns the channel. docs/LIMITS.md lists the
 * constants; the comments here explain them.
 */
import { systemClock } from '../util/clock.ts';
import { deferred } from '../util/deferred.ts';
import { asError, PeerGoneError, ProtocolError } from '../util/errors.ts';
import { BaseLink } from './baseLink.ts';
import { UNKNOWN_WAY, type Link, type LinkDescription } from './link.ts';

/**
 * While the channel's buffer has at least this number of bytes, further frames wait in the link's
 * own queue. Chromium throws above 16 MiB; 1 MiB keeps Chromium's SCTP window (at most about 1 MiB)
 * full.
 */
const CHANNEL_HIGH_BYTES = 1024 * 1024;
/**
 * When the channel's buffer has drained to this number of bytes, the link refills the buffer. The
 * number is far enough above zero that the connection never idles.
 */
const CHANNEL_LOW_BYTES = 256 * 1024;
/**
 * How long a link waits for late frames after its connection has closed. Frames and the close event
 * reach this thread by different paths, so the close event may be first.
 */
const LATE_FRAMES_MS = 50;

/** The connection of a channel. It may live on another thread. */
export interface Connection {
  /** Called once when the connection has ended or failed. */
  onclose: ((error: Error | null) => void) | null;
  describe(): Promise<LinkDescription>;
  /** Closes the connection and all its channels. Idempotent. */
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
    connection.onclose = (error) => systemClock.after(LATE_FRAMES_MS, () => this.closed(error));
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
    else this.closed(new ProtocolError('The other side sent text instead of a frame.'));
  }
}

/**
 * Resolves with a link over `channel` once the channel is open. The channel must still be
 * connecting when this is called. Rejects with PeerGoneError if the connection fails.
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
