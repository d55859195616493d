/**
 * A channel for frames through the signaling server. Each end has a WebSocket, and the server
 * forwards the messages of one to the other (`protocol/serverLink.ts`). Messages are sealed, unless
 * one of the two pages cannot encrypt.
 *
 * Sealing and opening are asynchronous. Several messages are sealed or opened at the same time, but
 * they are sent and delivered in order.
 */
import * as v from 'valibot';
import { ServerLinkAnswer, type ServerLinkOpening } from '../protocol/serverLink.ts';
import { systemClock } from '../util/clock.ts';
import { createDeferred } from '../util/deferred.ts';
import { asError, PeerGoneError, ProtocolError } from '../util/errors.ts';
import type { FrameChannel } from './frameChannel.ts';
import { SERVER_LINK_WINDOW } from './frameOrder.ts';
import type { RouteDescription } from './link.ts';
import type { FrameSeals } from './sealing.ts';

/**
 * Maximum number of bytes that have arrived and are not delivered yet. The other end's window
 * limits them, unless that end is hostile.
 */
const MAX_ARRIVED_BYTES = 2 * SERVER_LINK_WINDOW.bytes;

/**
 * Sizes of the messages that measure the round trip. Other messages are empty, have one byte or
 * have at least the length of a frame's header.
 */
const PING_BYTES = 2;
const PONG_BYTES = 3;
/**
 * Number of pings that measure the round trip. The shortest round trip counts, because a busy tab
 * answers late.
 */
const PINGS = 4;
/**
 * Milliseconds between two of the pings after that, which find out whether the link still works. An
 * end answers a ping after half of this time, because pings may travel at different speeds.
 */
export const SERVER_LINK_PING_INTERVAL_MS = 4_000;

/** Close codes of a normal end: `close()` was called, with or without a code. */
const NORMAL_CODES: readonly number[] = [1000, 1005];

/** The properties and methods of WebSocket that the channel uses. */
export type LinkSocket = Pick<WebSocket, 'binaryType' | 'bufferedAmount' | 'addEventListener' | 'send' | 'close'>;

interface ServerChannelOptions {
  /** A new WebSocket to the server's path for links. */
  socket: LinkSocket;
  opening: ServerLinkOpening;
  /** Resolves when both ends know their keys. `null`: messages are sent in the clear. */
  seals: Promise<FrameSeals | null>;
  /**
   * Called once when the channel has ended, before {@link FrameChannel.onclose}. `null`: one of the
   * ends has closed it.
   */
  onend: (error: Error | null) => void;
}

export class ServerLinkChannel implements FrameChannel {
  /** Messages are always ArrayBuffers. */
  binaryType: BinaryType = 'arraybuffer';
  /**
   * Has no effect, because a WebSocket does not report that its buffer has drained. The
   * acknowledgements of the other end wake the sender.
   */
  bufferedAmountLowThreshold = 0;
  onbufferedamountlow: FrameChannel['onbufferedamountlow'] = null;
  /** Is not called: `onend` has the error. */
  onerror: FrameChannel['onerror'] = null;
  onopen: FrameChannel['onopen'] = null;
  onmessage: FrameChannel['onmessage'] = null;
  onclose: FrameChannel['onclose'] = null;
  readonly #socket: LinkSocket;
  readonly #onend: (error: Error | null) => void;
  #state: 'connecting' | 'open' | 'closed' = 'connecting';
  #isConnected = false;
  #isPaired = false;
  readonly #paired = createDeferred();
  /** Resolves when the channel is open or has failed to open. */
  readonly #opened: Promise<void>;
  #seals: FrameSeals | null = null;
  #sealingBytes = 0;
  /** Resolves when the latest message was sent. */
  #sent = Promise.resolve();
  #arrivedBytes = 0;
  /** Resolves when the latest message was delivered. */
  #delivered = Promise.resolve();
  #pingsLeft = PINGS;
  #pongsLeft = PINGS;
  #pingedAt = 0;
  #pongedAt = 0;
  /** When {@link answers} last sent a ping, or the channel opened. */
  #checkedAt = 0;
  /** Called when a message arrives. */
  #onarrival: () => void = () => {};
  #shortestMs = Infinity;

  constructor({ socket, opening, seals, onend }: ServerChannelOptions) {
    this.#socket = socket;
    this.#onend = onend;
    this.#opened = this.#open(seals);
    socket.binaryType = 'arraybuffer';
    socket.addEventListener('open', () => {
      this.#isConnected = true;
      socket.send(JSON.stringify(opening));
    });
    socket.addEventListener('message', ({ data }: MessageEvent<unknown>) => this.#receive(data));
    socket.addEventListener('close', ({ code, reason }) => void this.#endAfterArrivals(this.#errorOf(code, reason)));
  }

  get readyState(): RTCDataChannelState {
    return this.#state;
  }

  get bufferedAmount(): number {
    return this.#sealingBytes + this.#socket.bufferedAmount;
  }

  describe(): RouteDescription {
    return {
      route: this.#seals === null ? 'server-clear' : 'server',
      roundTripMs: this.#shortestMs === Infinity ? null : this.#shortestMs,
    };
  }

  /**
   * See {@link Link.answers}. Resolves with `true` without a ping if the latest one was sent less
   * than {@link SERVER_LINK_PING_INTERVAL_MS} ago.
   */
  async answers(ms: number): Promise<boolean> {
    const now = systemClock.now();
    if (this.#state !== 'open' || now - this.#checkedAt < SERVER_LINK_PING_INTERVAL_MS) return true;
    this.#checkedAt = now;
    const answered = createDeferred<boolean>();
    this.#onarrival = () => answered.resolve(true);
    const cancel = systemClock.after(ms, () => answered.resolve(false));
    this.#ping();
    const isAlive = await answered.promise;
    cancel();
    return isAlive;
  }

  send(data: ArrayBuffer): void {
    if (this.#state !== 'open') throw new PeerGoneError('The link through the server is not open.');
    if (this.#seals === null) return this.#socket.send(data);
    this.#sealingBytes += data.byteLength;
    this.#sent = this.#sendAfter(this.#sent, this.#seals.seal(data), data.byteLength);
  }

  /** Messages that are not sealed yet are lost. Idempotent. */
  close(): void {
    this.#end(null);
  }

  async #open(sealing: Promise<FrameSeals | null>): Promise<void> {
    try {
      const [seals] = await Promise.all([sealing, this.#paired.promise]);
      if (this.#state !== 'connecting') return;
      this.#seals = seals;
      this.#state = 'open';
      this.#checkedAt = systemClock.now();
      this.onopen?.(new Event('open'));
      this.#measure();
    } catch (error) {
      this.#end(asError(error));
    }
  }

  async #sendAfter(before: Promise<void>, sealing: Promise<ArrayBuffer>, bytes: number): Promise<void> {
    try {
      const [message] = await Promise.all([sealing, before]);
      this.#sealingBytes -= bytes;
      if (this.#state === 'open') this.#socket.send(message);
    } catch (error) {
      this.#end(asError(error));
    }
  }

  #receive(data: unknown): void {
    // Messages may still arrive while a socket closes.
    if (this.#state === 'closed') return;
    if (!(data instanceof ArrayBuffer)) return this.#receiveAnswer(String(data));
    if (!this.#isPaired)
      return this.#end(new ProtocolError('The server sent a frame before it had connected the two ends of the link.'));
    this.#onarrival();
    this.#arrivedBytes += data.byteLength;
    if (this.#arrivedBytes > MAX_ARRIVED_BYTES) {
      return this.#end(new ProtocolError('The other end of a link through the server sends more than it may.'));
    }
    // The other end may be open earlier than this one.
    const opening = this.#opened.then(() => this.#seals?.open(data) ?? data);
    this.#delivered = this.#deliverAfter(this.#delivered, opening, data.byteLength);
  }

  #receiveAnswer(text: string): void {
    let answer: ServerLinkAnswer;
    try {
      answer = v.parse(ServerLinkAnswer, JSON.parse(text));
    } catch {
      return this.#end(new ProtocolError('The server gave an unknown answer about a link. Reload the page.'));
    }
    if (answer.type === 'refused') return this.#end(new PeerGoneError(answer.message));
    this.#isPaired = true;
    this.#paired.resolve();
  }

  async #deliverAfter(before: Promise<void>, opening: Promise<ArrayBuffer>, bytes: number): Promise<void> {
    try {
      const [message] = await Promise.all([opening, before]);
      this.#arrivedBytes -= bytes;
      if (this.#state === 'open') this.#deliver(message);
    } catch (error) {
      this.#end(asError(error));
    }
  }

  #deliver(message: ArrayBuffer): void {
    if (message.byteLength === PING_BYTES) return this.#pong();
    if (message.byteLength === PONG_BYTES) return this.#receivePong();
    this.onmessage?.(new MessageEvent('message', { data: message }));
  }

  #measure(): void {
    if (this.#pingsLeft === 0 || this.#state !== 'open') return;
    this.#pingsLeft -= 1;
    this.#ping();
  }

  #ping(): void {
    this.#pingedAt = systemClock.now();
    this.send(new ArrayBuffer(PING_BYTES));
  }

  /** Answers a ping, unless pings arrive so often that the answers could fill this end's buffer. */
  #pong(): void {
    const now = systemClock.now();
    if (this.#pongsLeft > 0) this.#pongsLeft -= 1;
    else if (now - this.#pongedAt < SERVER_LINK_PING_INTERVAL_MS / 2) return;
    this.#pongedAt = now;
    this.send(new ArrayBuffer(PONG_BYTES));
  }

  #receivePong(): void {
    this.#shortestMs = Math.min(this.#shortestMs, systemClock.now() - this.#pingedAt);
    this.#measure();
  }

  #errorOf(code: number, reason: string): Error | null {
    // A normal close is no error, unless the link has not opened and the server gives a reason.
    if (NORMAL_CODES.includes(code) && (this.#state === 'open' || reason === '')) return null;
    if (reason !== '') return new PeerGoneError(`The server closed the link: ${reason}`);
    return new PeerGoneError(
      this.#isConnected
        ? 'The connection of a link to the server was lost.'
        : 'The server could not be reached for a link. Check that proxies between this machine and the server allow WebSockets.',
    );
  }

  /** Ends the channel after the messages that have arrived. */
  async #endAfterArrivals(error: Error | null): Promise<void> {
    if (this.#state === 'open') await this.#delivered;
    this.#end(error);
  }

  #end(error: Error | null): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#socket.close(1000);
    this.#onend(error);
    this.onclose?.(new Event('close'));
  }
}
