/**
 * Extra connections of a link. Over a distance, congestion control limits a connection to a
 * fraction of the line's rate: after each lost packet its rate is halved, and grows by one packet
 * per round trip. Four connections together recover four times faster.
 *
 * The end that opened the first connection measures the round-trip time over it and opens the
 * extra ones. Their signals are sent over the first connection.
 */
import * as v from 'valibot';
import { PeerSignal } from '../protocol/linkSignal.ts';
import { ProtocolError } from '../util/errors.ts';

/** The largest number of connections of a link. */
const MAX_CONNECTIONS = 4;

/**
 * Number of pings. The shortest round trip counts, because a busy page answers late. The round trip
 * that ICE has measured counts, too: ICE answers on another thread.
 */
const PINGS = 8;
/**
 * Links with a shorter round-trip time have one connection. In one building the time is below 5 ms,
 * also over Wi-Fi, and one connection reaches the line's rate.
 */
const NEAR_MS = 10;

/** Number of an extra connection. */
const number = v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(MAX_CONNECTIONS - 1));

const Message = v.variant('type', [
  v.strictObject({ type: v.literal('ping') }),
  v.strictObject({ type: v.literal('pong') }),
  v.strictObject({ type: v.literal('signal'), connection: number, signal: PeerSignal }),
  /** The end that received an offer cannot open its end of the connection. */
  v.strictObject({ type: v.literal('refused'), connection: number }),
]);
type Message = v.InferOutput<typeof Message>;

interface ExtraConnection {
  signal(signal: PeerSignal): void;
  close(): void;
}

interface FurtherOptions {
  initiator: boolean;
  /**
   * Number of connections; `null`: depends on the round-trip time. Only the initiator's value
   * counts.
   */
  connections: number | null;
  /** Returns milliseconds, as a clock does. */
  now: () => number;
  /** Resolves with the round-trip time that ICE has measured; `null`: not measured. */
  iceRoundTripMs: () => Promise<number | null>;
  /** Sends a text to the other end. */
  send: (text: string) => void;
  /**
   * Opens a connection, with the function that sends its signals to the other end. Returns `null`
   * if the page has enough of them, and throws if the browser allows no more.
   */
  open: (onsignal: (signal: PeerSignal) => void) => ExtraConnection | null;
}

export class ExtraConnections {
  readonly #options: FurtherOptions;
  /** Extra connections by number. `null`: the connection could not be opened. */
  readonly #opened = new Map<number, ExtraConnection | null>();
  #pingsLeft = PINGS;
  #pingedAt = 0;
  #shortestMs = Infinity;
  #isClosed = false;
  /** Messages that wait until this end is open. `null`: it is open. */
  #waiting: Message[] | null = [];

  constructor(options: FurtherOptions) {
    this.#options = options;
  }

  /** Call this on both ends when the first connection is open. */
  start(): void {
    const { initiator, connections } = this.#options;
    const waiting = this.#waiting ?? [];
    this.#waiting = null;
    for (const message of waiting) this.#send(message);
    if (!initiator) return;
    if (connections === null) this.#ping();
    else this.#openUpTo(connections);
  }

  /** @throws ProtocolError if the other end has sent something else. */
  receive(text: string): void {
    if (this.#isClosed) return;
    const message = read(text);
    switch (message.type) {
      case 'ping':
        return this.#send({ type: 'pong' });
      case 'pong':
        return this.#receivePong();
      case 'signal':
        return this.#receiveSignal(message.connection, message.signal);
      case 'refused':
        return this.#receiveRefusal(message.connection);
      default:
        message satisfies never;
    }
  }

  close(): void {
    this.#isClosed = true;
    for (const extra of this.#opened.values()) extra?.close();
    this.#opened.clear();
  }

  #ping(): void {
    this.#pingsLeft -= 1;
    this.#pingedAt = this.#options.now();
    this.#send({ type: 'ping' });
  }

  #receivePong(): void {
    this.#shortestMs = Math.min(this.#shortestMs, this.#options.now() - this.#pingedAt);
    if (this.#shortestMs < NEAR_MS) return;
    if (this.#pingsLeft > 0) this.#ping();
    else void this.#openIfFar();
  }

  async #openIfFar(): Promise<void> {
    // If the first connection closes in the meantime, it has no statistics.
    const iceMs = await this.#options.iceRoundTripMs().catch(() => null);
    if (!this.#isClosed && (iceMs ?? Infinity) >= NEAR_MS) this.#openUpTo(MAX_CONNECTIONS);
  }

  #openUpTo(connections: number): void {
    for (let connection = 1; connection < connections; connection++) this.#open(connection);
  }

  #receiveSignal(connection: number, signal: PeerSignal): void {
    // The first signal of a connection must be its offer, or the connection would never open.
    if (!this.#options.initiator && signal.type === 'offer' && !this.#opened.has(connection)) {
      this.#open(connection);
      if (this.#opened.get(connection) === null) this.#send({ type: 'refused', connection });
    }
    this.#opened.get(connection)?.signal(signal);
  }

  /** Closes a connection that the other end refused, so that other links may open one instead. */
  #receiveRefusal(connection: number): void {
    if (!this.#options.initiator) return;
    this.#opened.get(connection)?.close();
    this.#opened.set(connection, null);
  }

  /** Opens a connection. If that fails, the link continues without it. */
  #open(connection: number): void {
    let opened: ExtraConnection | null = null;
    try {
      opened = this.#options.open((signal) => this.#send({ type: 'signal', connection, signal }));
    } catch {
      // The link needs only its first connection.
    }
    this.#opened.set(connection, opened);
  }

  /**
   * Sends a message once this end is open. The other end may be open earlier: Firefox notices late
   * that its own end is open, and receives the first ping before it notices.
   */
  #send(message: Message): void {
    if (this.#waiting) this.#waiting.push(message);
    else this.#options.send(JSON.stringify(message));
  }
}

function read(text: string): Message {
  try {
    return v.parse(Message, JSON.parse(text));
  } catch {
    throw new ProtocolError('The other side sent an unreadable message about its connections.');
  }
}
