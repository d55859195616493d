/**
 * A link over the data channels of one to four WebRTC connections, or over one channel through the
 * server, on the thread that owns the channels. Each frame is sent over the channel with the fewest
 * unsent bytes, and the other end restores the order. docs/LIMITS.md lists the constants; the
 * comments here explain them.
 */
import { generationOfFrame, isHandshakeFrame, writeFrameNumber } from '../protocol/frame.ts';
import { isServedRoute } from '../protocol/runEvents.ts';
import { systemClock } from '../util/clock.ts';
import { createDeferred } from '../util/deferred.ts';
import { asError, PeerGoneError, ProtocolError } from '../util/errors.ts';
import { BaseLink } from './linkEnd.ts';
import type { FrameChannel } from './frameChannel.ts';
import { DATA_CHANNEL_WINDOW, FrameReceiveOrder, FrameSendWindow, type FrameWindowSize } from './frameOrder.ts';
import { UNKNOWN_LINK_DESCRIPTION, type Link, type LinkDescription, type RouteDescription } from './link.ts';
import { TailLossProbes } from './tailLossProbes.ts';

/**
 * While a channel's buffer has at least this number of bytes, divided by the number of channels,
 * further frames wait in the link's own queue. Chromium throws above 16 MiB; 1 MiB keeps Chromium's
 * SCTP window (at most about 1 MiB) full.
 */
const CHANNEL_HIGH_BYTES = 1024 * 1024;
/**
 * When a channel's buffer has drained to this number of bytes, divided by the number of channels,
 * the link refills the buffer. The number is far enough above zero that the connection never idles.
 */
const CHANNEL_LOW_BYTES = 256 * 1024;
/**
 * How long a link waits for late frames after its connection has closed. Frames and the close event
 * reach this thread by different paths, so the close event may be first.
 */
const LATE_FRAMES_MS = 50;

/** Size of the message that acknowledges a block of frames. Frames are longer. */
const ACKNOWLEDGEMENT_BYTES = 1;

/** The connections of a link. They may live on another thread. */
export interface WebRtcConnections {
  /**
   * Called once: when the first connection has ended or failed, or when an extra connection ends
   * after it was open.
   */
  onclose: ((error: Error | null) => void) | null;
  /** See {@link Link.onstall}. */
  onstall?: ((isStalled: boolean) => void) | null;
  /** Called with the channel of each extra connection before that channel is open. */
  onchannel: ((channel: RTCDataChannel) => void) | null;
  /** See {@link Link.answers}. */
  answers?(ms: number): Promise<boolean>;
  /** Describes the first connection. */
  describe(): Promise<RouteDescription>;
  /** Closes all connections and their channels. Idempotent. */
  close(): void;
}

interface OpenChannel {
  channel: FrameChannel;
  probes: TailLossProbes;
}

class ChannelLink extends BaseLink {
  readonly #channels: OpenChannel[] = [];
  readonly #connection: WebRtcConnections;
  readonly #queue: ArrayBuffer[] = [];
  readonly #order: FrameReceiveOrder;
  readonly #window: FrameSendWindow;
  /** Number of frames that were passed to channels. */
  #sent = 0;
  /** Why the connection has ended. Its channels' close events do not have the reason. */
  #failure: Error | null = null;

  /** @param extra channels of the extra connections that exist already. */
  constructor(
    channel: FrameChannel,
    extra: readonly RTCDataChannel[],
    connection: WebRtcConnections,
    window: FrameWindowSize,
  ) {
    super();
    this.#order = new FrameReceiveOrder(window);
    this.#window = new FrameSendWindow(window);
    this.#connection = connection;
    this.#listen(channel);
    this.#add(channel);
    for (const one of extra) this.#await(one);
    connection.onchannel = (one) => this.#await(one);
    connection.onstall = (isStalled) => this.onstall?.(isStalled);
    connection.onclose = (error) => {
      this.#failure = error;
      systemClock.after(LATE_FRAMES_MS, () => this.closed(error));
    };
  }

  protected transmit(frame: ArrayBuffer): void {
    if (isHandshakeFrame(frame)) this.#queue.splice(this.#firstPlaceOf(frame), 0, frame);
    else this.#queue.push(frame);
    this.#drain();
  }

  /**
   * Returns the first position in the queue that a frame may take: the one after all queued frames
   * of its generation. So a handshake does not wait for frames of other generations.
   */
  #firstPlaceOf(frame: ArrayBuffer): number {
    return this.#queue.findLastIndex((earlier) => generationOfFrame(earlier) === generationOfFrame(frame)) + 1;
  }

  protected release(): void {
    this.#queue.length = 0;
    this.#connection.onclose = null;
    this.#connection.onchannel = null;
    this.#connection.onstall = null;
    for (const { channel, probes } of this.#channels) {
      probes.stop();
      channel.close();
    }
    this.#connection.close();
  }

  get unsentBytes(): number {
    return this.#channels.reduce((sum, { channel }) => sum + channel.bufferedAmount, this.queuedBytes);
  }

  discard(generation: number): void {
    for (const frame of this.#queue.splice(0)) {
      if (generationOfFrame(frame) === generation) this.left(frame.byteLength);
      else this.#queue.push(frame);
    }
  }

  async answers(ms: number): Promise<boolean> {
    return (await this.#connection.answers?.(ms)) ?? true;
  }

  async describe(): Promise<LinkDescription> {
    if (this.state === 'closed') return UNKNOWN_LINK_DESCRIPTION;
    const description = await this.#connection.describe();
    return { ...description, connections: isServedRoute(description.route) ? 0 : this.#channels.length };
  }

  /** Sends over an extra channel once it is open. Frames may arrive over it before that. */
  #await(channel: FrameChannel): void {
    this.#listen(channel);
    if (channel.readyState === 'open') this.#add(channel);
    else channel.onopen = () => this.#add(channel);
  }

  #listen(channel: FrameChannel): void {
    channel.binaryType = 'arraybuffer';
    channel.onmessage = ({ data }: MessageEvent<unknown>) => this.#receive(data);
  }

  /**
   * Begins to send over an open channel. From then on, the link closes when this channel closes.
   */
  #add(channel: FrameChannel): void {
    if (this.state === 'closed') return channel.close();
    channel.onbufferedamountlow = this.#drain;
    channel.onerror = ({ error }) => this.closed(error);
    channel.onclose = () => this.closed(this.#failure);
    this.#channels.push({ channel, probes: new TailLossProbes(channel, systemClock) });
    for (const { channel: each } of this.#channels) {
      each.bufferedAmountLowThreshold = CHANNEL_LOW_BYTES / this.#channels.length;
    }
    this.#drain();
  }

  readonly #drain = (): void => {
    while (this.#queue.length > 0 && this.#window.admits(this.#queue[0]!)) {
      const to = this.#emptiest();
      // A browser may not report that this end has closed a channel.
      if (to.channel.readyState !== 'open') return this.closed(this.#failure);
      if (to.channel.bufferedAmount >= CHANNEL_HIGH_BYTES / this.#channels.length) return;
      const frame = this.#queue.shift()!;
      try {
        writeFrameNumber(frame, this.#sent);
        this.#sendOver(to, frame);
      } catch (error) {
        return this.closed(asError(error));
      }
      this.#sent += 1;
      this.#window.sent(frame);
      this.left(frame.byteLength);
    }
  };

  #sendOver({ channel, probes }: OpenChannel, data: ArrayBuffer): void {
    channel.send(data);
    // Only links to distant peers have several connections and need probes. Over short
    // distances, packets are hardly ever lost.
    if (this.#channels.length > 1) probes.sent();
  }

  /**
   * Returns the channel with the fewest unsent bytes. If all channels are in use, that is the
   * quickest one.
   */
  #emptiest(): OpenChannel {
    return this.#channels.reduce((best, next) =>
      next.channel.bufferedAmount < best.channel.bufferedAmount ? next : best,
    );
  }

  #receive(data: unknown): void {
    if (!(data instanceof ArrayBuffer)) {
      return this.closed(new ProtocolError('The other side sent text instead of a frame.'));
    }
    // An empty message is a probe.
    if (data.byteLength === 0) return;
    try {
      if (data.byteLength === ACKNOWLEDGEMENT_BYTES) {
        this.#window.acknowledged();
        return this.#drain();
      }
      for (const frame of this.#order.add(data)) this.arrived(frame);
      for (let blocks = this.#order.takeBlocks(); blocks > 0 && this.state === 'open'; blocks--) {
        this.#sendOver(this.#emptiest(), new ArrayBuffer(ACKNOWLEDGEMENT_BYTES));
      }
    } catch (error) {
      this.closed(asError(error));
    }
  }
}

/**
 * Resolves with a link over `channel` once the channel is open. The channel must still be
 * connecting when this is called. Rejects with PeerGoneError if the connection fails.
 */
export function openChannelLink(
  channel: FrameChannel,
  connection: WebRtcConnections,
  window = DATA_CHANNEL_WINDOW,
): Promise<Link> {
  const opened = createDeferred<Link>();
  const extra: RTCDataChannel[] = [];
  connection.onchannel = (one) => extra.push(one);
  connection.onclose = (error) => {
    const why = error ? `The connection failed: ${error.message}` : 'The connection closed while it was opening.';
    opened.reject(new PeerGoneError(why));
  };
  channel.onopen = () => opened.resolve(new ChannelLink(channel, extra, connection, window));
  return opened.promise;
}
