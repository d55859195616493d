/**
 * One tab's WebSocket: checks every message, holds the sender to the limits, and speaks to its room for it. Never
 * throws into the server, whatever arrives; logs never carry what members told each other, nor addresses.
 */
import { randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import type { RawData, WebSocket } from 'ws';
import { ClientMessage, parseControl, type Refusal, type ServerMessage } from '../src/protocol/control.ts';
import type { Clock } from '../src/util/clock.ts';
import { ProtocolError } from '../src/util/errors.ts';
import type { Hub, Peer } from './hub.ts';
import { iceServersFor, type IceOptions } from './ice.ts';
import { type FailureCounter, type Limits, TokenBucket } from './limits.ts';
import type { LeaveReason, Newcomer } from './room.ts';

/** What all connections of a server share. */
export interface ServerContext {
  readonly hub: Hub;
  readonly limits: Limits;
  readonly clock: Clock;
  readonly ice: IceOptions;
  readonly wrongCodes: FailureCounter;
  readonly bootId: string;
  readonly log: Logger;
}

/** WebSocket close codes (RFC 6455, section 7.4.1). */
const CLOSE_NORMAL = 1000;
const CLOSE_POLICY = 1008;
const CLOSE_INTERNAL = 1011;
export const CLOSE_RESTART = 1012;

/** After these the sender may go on; after every other refusal the server closes. */
const HARMLESS: ReadonlySet<Refusal> = new Set<Refusal>(['not-host', 'not-now']);

/** Random bytes of ids and tokens: 96 bits never collide, 192 bits are never guessed. */
const MEMBER_BYTES = 12;
const TOKEN_BYTES = 24;

export class Connection implements Peer {
  readonly member = randomBytes(MEMBER_BYTES).toString('base64url');
  readonly #token = randomBytes(TOKEN_BYTES).toString('base64url');
  readonly #socket: WebSocket;
  /** What limits per address count by. */
  readonly #address: string;
  readonly #server: ServerContext;
  readonly #bucket: TokenBucket;
  #room: string | null = null;
  #over = false;
  #heardAt: number;
  #cancelTimer: () => void;

  constructor(socket: WebSocket, address: string, server: ServerContext) {
    this.#socket = socket;
    this.#address = address;
    this.#server = server;
    const { clock, limits } = server;
    this.#bucket = new TokenBucket(clock, limits.messagesPerSecond, limits.messageBurst);
    this.#heardAt = clock.now();
    this.#cancelTimer = clock.after(limits.firstMessageMs, () => {
      this.refuse('silent', 'Nothing was said on this connection: reload the page.');
    });
    socket.on('message', (data, isBinary) => this.#onMessage(data, isBinary));
    socket.on('close', () => this.#leave('left'));
    // Without a listener an oversize frame or a reset connection would end the process; `close` follows it.
    socket.on('error', () => server.log.info({ member: this.member }, 'socket error'));
  }

  send(message: ServerMessage): void {
    if (message.type === 'refused' && !HARMLESS.has(message.code)) return this.refuse(message.code, message.message);
    if (this.#over) return;
    this.#write(message);
    if (this.#socket.bufferedAmount <= this.#server.limits.maxUnsentBytes) return;
    this.#server.log.warn({ member: this.member }, 'slow reader cut off');
    this.#socket.terminate();
  }

  admit(room: string): void {
    const { ice, bootId, limits } = this.#server;
    this.send({
      type: 'admitted',
      member: this.member,
      token: this.#token,
      room,
      iceServers: iceServersFor(this.member, ice, Date.now()),
      bootId,
      heartbeatMs: limits.heartbeatMs,
    });
  }

  /** Says why, closes, and leaves the room. */
  refuse(code: Refusal, message: string, closeCode = CLOSE_POLICY): void {
    if (this.#over) return;
    this.#server.log.info({ member: this.member, code }, 'refused');
    this.#write({ type: 'refused', code, message });
    this.#leave(code === 'silent' ? 'silent' : 'dropped');
    this.#socket.close(closeCode, code);
  }

  terminate(): void {
    this.#socket.terminate();
  }

  #write(message: ServerMessage): void {
    // The callback takes errors of a socket that is closing; `close` tells the rest.
    this.#socket.send(JSON.stringify(message), () => {});
  }

  #onMessage(data: RawData, isBinary: boolean): void {
    if (this.#over) return;
    this.#heardAt = this.#server.clock.now();
    try {
      if (!this.#bucket.take()) {
        return this.refuse('rate-limited', 'This tab sends messages too fast: reload the page.');
      }
      if (isBinary) throw new ProtocolError('A control message was binary; it must be text.');
      // ws hands over one Buffer unless told otherwise.
      this.#handle(parseControl(ClientMessage, (data as Buffer).toString('utf8')));
    } catch (error) {
      if (error instanceof ProtocolError) return this.refuse('bad-message', `${error.message} Reload the page.`);
      this.#server.log.error({ err: error }, 'message handler failed');
      this.#leave('dropped');
      this.#socket.close(CLOSE_INTERNAL);
    }
  }

  #handle(message: ClientMessage): void {
    if (message.type === 'create' || message.type === 'join') {
      if (this.#room !== null) throw new ProtocolError('This connection is in a room already.');
      return message.type === 'create' ? this.#create(message) : this.#join(message);
    }
    if (this.#room === null) throw new ProtocolError('The first message must be "create" or "join".');
    if (message.type === 'heartbeat') return this.send({ type: 'heartbeat' });
    if (message.type === 'leave') {
      this.#leave('left');
      return this.#socket.close(CLOSE_NORMAL);
    }
    this.#server.hub.dispatch(this.#room, { ...message, member: this.member });
  }

  #create({ name, browser, rank, job, startAt }: Extract<ClientMessage, { type: 'create' }>): void {
    const { hub } = this.#server;
    const code = hub.open({ job, startAt, isPermanent: false });
    if (code === null)
      return this.refuse('rate-limited', 'This server holds as many rooms as it may: try again later.');
    if (!this.#enter(code, { name, browser, rank })) hub.forget(code);
  }

  #join({ room: code, name, browser, rank, worldSize }: Extract<ClientMessage, { type: 'join' }>): void {
    const { hub, wrongCodes } = this.#server;
    // Right codes are refused as well while an address is blocked: else guessing would go on until one fits. (Opening a
    // room guesses nothing: one child's wrong codes must not stop a school.)
    if (wrongCodes.isBlocked(this.#address)) {
      return this.refuse(
        'rate-limited',
        'Too many wrong room codes came from your network: wait a minute, then retry.',
      );
    }
    if (!hub.has(code)) {
      wrongCodes.add(this.#address);
      return this.refuse('no-room', `There is no room ${code} here: check the code with whoever gave it to you.`);
    }
    this.#enter(code, { name, browser, rank, worldSize });
  }

  /** Whether the room took this member; if not, it has said why. */
  #enter(code: string, newcomer: Newcomer): boolean {
    if (!this.#server.hub.join(code, this, newcomer)) return false;
    this.#room = code;
    this.#cancelTimer();
    this.#watchSilence();
    return true;
  }

  /** Sleeps until the silence would be too long, and looks again. */
  #watchSilence(): void {
    const { clock, limits } = this.#server;
    const rest = this.#heardAt + limits.silentMs - clock.now();
    if (rest <= 0) {
      const seconds = limits.silentMs / 1000;
      return this.refuse('silent', `The server heard nothing from this tab for ${seconds} s: reload the page.`);
    }
    this.#cancelTimer = clock.after(rest, () => this.#watchSilence());
  }

  #leave(reason: LeaveReason): void {
    this.#over = true;
    this.#cancelTimer();
    const room = this.#room;
    this.#room = null;
    if (room !== null) this.#server.hub.dispatch(room, { type: 'left', member: this.member, reason });
  }
}
