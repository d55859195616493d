/**
 * A link through the server: two WebSockets, whose binary messages the server forwards to each
 * other. It reads nothing in them and has no queue. While a target does not take its bytes, the
 * server does not read from the source, so the source's connection fills and its sender waits. One
 * of the WebSockets may be in another process (`cluster/remoteEnd.ts`).
 */
import type { RawData } from 'ws';
import { MIN_CHARGED_MESSAGE_BYTES } from '../../src/protocol/serverLink.ts';
import type { Clock } from '../../src/util/clock.ts';
import { CLOSE_NORMAL, CLOSE_POLICY } from '../connection.ts';
import type { Limits } from '../limits.ts';
import type { Metrics } from '../monitoring/metrics.ts';
import type { RateShare, SharedRate } from './sharedRate.ts';

export function countedBytesOf(message: Buffer): number {
  return Math.max(message.length, MIN_CHARGED_MESSAGE_BYTES);
}

/** The properties and methods of a WebSocket that a link uses. */
export interface LinkSocket {
  readonly isPaused: boolean;
  on(event: 'message', listener: (data: RawData, isBinary: boolean) => void): unknown;
  on(event: 'ping' | 'pong' | 'close', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  send(data: Buffer, ontaken: () => void): void;
  ping(): void;
  pause(): void;
  resume(): void;
  close(code: number, why: string): void;
  terminate(): void;
  /** Called when the target has taken a message. A WebSocket does not have this method. */
  onTaken?(): void;
}

/** State that all links of a server share. */
export interface LinkContext {
  readonly clock: Clock;
  readonly limits: Limits;
  readonly metrics: Metrics;
  readonly rate: SharedRate;
  /** Counted bytes of all links that the server has read, and that wait for their targets. */
  readonly backlog: { bytes: number };
  /** Ends a link, because the links together hold more than {@link Limits.maxAllLinksBytes}. */
  readonly shed: () => void;
}

/** The direction from one WebSocket to the other. */
class Direction {
  readonly source: LinkSocket;
  readonly target: LinkSocket;
  readonly #context: LinkContext;
  readonly #share: RateShare;
  /** Counted bytes that wait for the target. */
  #waiting = 0;
  /** Whether the source waits because the target does not take its bytes. */
  #isFull = false;
  /** Whether the source waits for its turn. */
  #isOutOfTurn = false;
  /** Whether the source has sent something since the last check. */
  #hasSent = true;
  /** Whether the target has taken something since the last check. */
  #hasTaken = true;
  /** Number of checks in a row at which the source had sent nothing. */
  #silentChecks = 0;
  /** Number of checks in a row at which the target had taken nothing. */
  #stalledChecks = 0;
  /** Called when nothing waits for the target any more. */
  #onempty: (() => void) | null = null;

  constructor(room: string, source: LinkSocket, target: LinkSocket, context: LinkContext) {
    this.source = source;
    this.target = target;
    this.#context = context;
    this.#share = context.rate.join(room, () => {
      this.#isOutOfTurn = false;
      this.#pauseOrResume();
    });
  }

  get waiting(): number {
    return this.#waiting;
  }

  forward(data: Buffer): void {
    const { metrics, backlog, limits, shed } = this.#context;
    const counted = countedBytesOf(data);
    this.#hold(counted);
    metrics.linkForwarded(data.length);
    // `send` calls the callback when the operating system has taken the message, or the socket is
    // closed.
    this.target.send(data, () => {
      this.#hold(-counted);
      this.#hasTaken = true;
      this.source.onTaken?.();
      if (this.#waiting === 0) this.#onempty?.();
      if (!this.#isFull || this.#waiting > this.#limit / 4) return;
      this.#isFull = false;
      this.#pauseOrResume();
    });
    this.#isFull ||= this.#waiting >= this.#limit;
    this.count(counted);
    if (backlog.bytes > limits.maxAllLinksBytes) shed();
  }

  /** Calls `fn` once nothing waits for the target. */
  whenEmpty(fn: () => void): void {
    if (this.#waiting === 0) fn();
    else this.#onempty = fn;
  }

  /** Counts bytes of the source, which waits for its turn if the rate is used up. */
  count(bytes: number): void {
    this.#hasSent = true;
    this.#isOutOfTurn = !this.#context.rate.take(this.#share, bytes);
    this.#pauseOrResume();
  }

  /**
   * Sends a ping to the source, so that proxies keep its connection open. Returns `silent` if the
   * source has sent nothing for too long, `stalled` if the target has taken nothing for too long,
   * and otherwise `null`.
   */
  check(): 'silent' | 'stalled' | null {
    const { linkSilentMs, linkPingMs } = this.#context.limits;
    // The server does not read the pongs of a source that it has paused.
    this.#silentChecks = this.#hasSent || this.source.isPaused ? 0 : this.#silentChecks + 1;
    this.#stalledChecks = this.#hasTaken || this.#waiting === 0 ? 0 : this.#stalledChecks + 1;
    this.#hasSent = this.#hasTaken = false;
    this.source.ping();
    if (this.#silentChecks * linkPingMs >= linkSilentMs) return 'silent';
    return this.#stalledChecks * linkPingMs >= linkSilentMs ? 'stalled' : null;
  }

  /** Resumes the source, so that its closing handshake can complete. */
  end(): void {
    this.#context.rate.leave(this.#share);
    this.#isFull = this.#isOutOfTurn = false;
    this.source.resume();
  }

  /** Counted bytes that may wait for the target before the source is paused. */
  get #limit(): number {
    const { backlog, limits, rate } = this.#context;
    const isScarce = backlog.bytes >= limits.allLinksBytes;
    const hasShare = this.#share.room.backlog >= limits.allLinksBytes / rate.rooms;
    return isScarce && hasShare ? MIN_CHARGED_MESSAGE_BYTES : limits.linkBytes;
  }

  /**
   * Adds to the bytes that wait for the target. `bytes` is negative if the target has taken them.
   */
  #hold(bytes: number): void {
    this.#waiting += bytes;
    this.#share.room.backlog += bytes;
    this.#context.backlog.bytes += bytes;
  }

  #pauseOrResume(): void {
    const shouldPause = this.#isFull || this.#isOutOfTurn;
    if (shouldPause === this.source.isPaused) return;
    if (shouldPause) return this.source.pause();
    this.#hasSent = true;
    this.source.resume();
  }
}

export class PairedLink {
  readonly #directions: readonly [Direction, Direction];
  readonly #context: LinkContext;
  readonly #onend: (why: string) => void;
  #cancelCheck: () => void;
  #isOver = false;

  /** @param onend called once, with the reason. */
  constructor(room: string, [a, b]: [LinkSocket, LinkSocket], context: LinkContext, onend: (why: string) => void) {
    this.#context = context;
    this.#onend = onend;
    this.#directions = [new Direction(room, a, b, context), new Direction(room, b, a, context)];
    this.#cancelCheck = this.#checkLater();
    for (const direction of this.#directions) this.#listen(direction);
  }

  /** Counted bytes that the server has read, and that wait for their targets. */
  get waiting(): number {
    return this.#directions[0].waiting + this.#directions[1].waiting;
  }

  /** Closes both WebSockets. Does nothing if the link has ended. */
  end(code: number, why: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#cancelCheck();
    for (const direction of this.#directions) {
      direction.end();
      direction.source.close(code, why);
    }
    this.#onend(why);
  }

  /** Ends the link, and drops what waits for the targets. */
  terminate(why: string): void {
    this.end(CLOSE_POLICY, why);
    for (const { source } of this.#directions) source.terminate();
  }

  #listen(direction: Direction): void {
    const { source } = direction;
    source.on('message', (data: RawData, isBinary: boolean) => {
      if (this.#isOver) return;
      if (!isBinary) return this.end(CLOSE_POLICY, 'One end of the link sent a text, but frames are binary.');
      // By default, ws delivers a message as one Buffer.
      direction.forward(data as Buffer);
    });
    const countSign = (): void => {
      if (!this.#isOver) direction.count(MIN_CHARGED_MESSAGE_BYTES);
    };
    source.on('ping', countSign);
    source.on('pong', countSign);
    // `ws` rejects a frame that is too large or invalid. After other errors, `close` follows.
    source.on('error', ({ code = '' }: NodeJS.ErrnoException) => {
      if (code.startsWith('WS_ERR_'))
        this.end(CLOSE_POLICY, 'One end of the link sent an invalid or too large message.');
    });
    // Some seconds after a target is closed, `ws` destroys it if it has not taken everything.
    source.on('close', () =>
      direction.whenEmpty(() => this.end(CLOSE_NORMAL, 'The other end of the link has closed.')),
    );
  }

  #checkLater(): () => void {
    const { clock, limits } = this.#context;
    return clock.after(limits.linkPingMs, () => {
      const seconds = limits.linkSilentMs / 1000;
      for (const direction of this.#directions) {
        const verdict = direction.check();
        if (verdict === 'silent') return this.end(CLOSE_POLICY, `One end of the link sent nothing for ${seconds} s.`);
        if (verdict === 'stalled') return this.end(CLOSE_POLICY, `One end of the link took no data for ${seconds} s.`);
      }
      this.#cancelCheck = this.#checkLater();
    });
  }
}
