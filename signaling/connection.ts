/**
 * One tab's WebSocket: checks every message, holds the sender to the limits, and speaks to its room
 * for it. Never throws into the server, whatever arrives; logs never carry what members told each
 * other, nor addresses.
 */
import { randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import type { RawData, WebSocket } from 'ws';
import {
  ClientMessage,
  type IceServer,
  parseControl,
  type Refusal,
  type ServerMessage,
} from '../src/protocol/control.ts';
import type { Clock } from '../src/util/clock.ts';
import { ProtocolError, SignalingError } from '../src/util/errors.ts';
import type { Entry, Hub, Peer } from './hub.ts';
import { iceServersFor, renewIceAfterMs, type IceOptions } from './ice.ts';
import type { Credentials } from './credentials.ts';
import { type AddressBuckets, type FailureCounter, type Limits, TokenBucket } from './limits.ts';
import type { Metrics } from './monitoring/metrics.ts';
import { Outbox } from './outbox.ts';
import type { LeaveReason } from './room/index.ts';
import type { RoomLog } from './monitoring/roomLog.ts';
import type { RoomOwner, RoomDirectory } from './roomDirectory.ts';

/** What all connections of a server share. */
export interface ServerContext {
  readonly hub: Hub;
  readonly rooms: RoomDirectory;
  readonly limits: Limits;
  readonly clock: Clock;
  readonly ice: IceOptions;
  readonly credentials: Credentials;
  readonly wrongCodes: FailureCounter;
  /** Rooms that members bring back without a proof. */
  readonly revivals: FailureCounter;
  /** Rooms that tabs of an address open. */
  readonly openings: AddressBuckets;
  readonly bootId: string;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly roomLog: RoomLog;
}

/** WebSocket close codes (RFC 6455, section 7.4.1). */
const CLOSE_NORMAL = 1000;
const CLOSE_GOING_AWAY = 1001;
const CLOSE_POLICY = 1008;
const CLOSE_INTERNAL = 1011;
export const CLOSE_RESTART = 1012;

/** After these the sender may go on; after every other refusal the server closes. */
const HARMLESS: ReadonlySet<Refusal> = new Set<Refusal>(['not-host', 'not-now']);

/** Random bytes of a member's id: 96 bits never collide. */
const MEMBER_BYTES = 12;

const NO_PLACE = 'This server holds as many rooms as it may: try again later.';
const TOO_MANY_REVIVALS = 'Too many rooms of your network came back at once: wait a minute, then retry.';
const TOO_MANY_GUESSES = 'Too many wrong room codes came from your network: wait a minute, then retry.';

export class Connection implements Peer {
  #member = randomBytes(MEMBER_BYTES).toString('base64url');
  #holdsKey = false;
  readonly #socket: WebSocket;
  /** What limits per address count by. */
  readonly #address: string;
  readonly #server: ServerContext;
  readonly #bucket: TokenBucket;
  readonly #news: TokenBucket;
  readonly #outbox: Outbox;
  /** The room it is in, and who has it. */
  #room: { readonly code: string; readonly owner: RoomOwner } | null = null;
  /** Messages that came with the one by which it enters a room; `null`: it does not. */
  #early: ClientMessage[] | null = null;
  #over = false;
  #heardAt: number;
  /** The last that it was given. */
  #token = '';
  /** When its ICE servers were last told. */
  #iceAt = 0;
  #cancelTimer: () => void;

  constructor(socket: WebSocket, address: string, server: ServerContext) {
    this.#socket = socket;
    this.#address = address;
    this.#server = server;
    const { clock, limits } = server;
    this.#bucket = new TokenBucket(clock, limits.messagesPerSecond, limits.messageBurst);
    this.#news = new TokenBucket(clock, limits.updatesPerSecond, limits.updateBurst);
    this.#outbox = new Outbox(socket, server.metrics);
    this.#heardAt = clock.now();
    this.#cancelTimer = clock.after(limits.firstMessageMs, () => {
      this.refuse('silent', 'Nothing was said on this connection: reload the page.');
    });
    socket.on('message', (data, isBinary) => this.#onMessage(data, isBinary));
    // Browsers' pages cannot send these; ws answers pings by itself.
    socket.on('ping', () => this.#isTooFast());
    socket.on('pong', () => this.#isTooFast());
    socket.on('close', (code) => {
      server.log.info({ member: this.member, code }, 'closed');
      // Going away (1001) is what a browser says for a page that is closed, or has crashed: nobody
      // will come back.
      this.#leave(code === CLOSE_GOING_AWAY ? 'left' : null);
    });
    // Without a listener an oversize frame or a reset connection would end the process; `close`
    // follows it.
    socket.on('error', () => server.log.info({ member: this.member }, 'socket error'));
  }

  get member(): string {
    return this.#member;
  }

  send(message: ServerMessage): void {
    if (message.type === 'refused' && !HARMLESS.has(message.code)) return this.refuse(message.code, message.message);
    if (this.#over) return;
    const { limits, log, metrics, roomLog } = this.#server;
    if (message.type === 'admitted') log.info({ member: this.member, room: roomLog.nameOf(message.room) }, 'admitted');
    if (message.type === 'refused') metrics.refused(message.code);
    if (message.type === 'prepare') this.#renewIce();
    this.#outbox.send(message);
    if (this.#socket.bufferedAmount <= limits.maxUnsentBytes) return;
    log.warn({ member: this.member }, 'slow reader cut off');
    this.#socket.terminate();
  }

  admit(room: string): void {
    const { ice, bootId, limits } = this.#server;
    this.send({
      type: 'admitted',
      member: this.member,
      ...this.#mintCredentials(room),
      room,
      iceServers: this.#mintIce(),
      ...(ice.relayOnly ? { iceTransportPolicy: 'relay' } : {}),
      bootId,
      heartbeatMs: limits.heartbeatMs,
    });
  }

  #mintCredentials(room: string): { token: string; hostKey: string | null } {
    const { credentials } = this.#server;
    this.#token = credentials.tokenFor(room, this.member);
    return { token: this.#token, hostKey: this.#holdsKey ? credentials.hostKeyFor(room) : null };
  }

  /** They expire; a member may stay for longer, and needs them when it has lost its connection. */
  #renewCredentials(room: string): void {
    if (!this.#server.credentials.isHalfOver(this.#token)) return;
    this.send({ type: 'credentials', ...this.#mintCredentials(room) });
  }

  #mintIce(): IceServer[] {
    this.#iceAt = this.#server.clock.now();
    return iceServersFor(this.member, this.#server.ice, Date.now());
  }

  /** TURN passwords expire; they are needed where links are made. */
  #renewIce(): void {
    const { ice, clock } = this.#server;
    const after = renewIceAfterMs(ice);
    if (after === null || clock.now() - this.#iceAt < after) return;
    this.#outbox.send({ type: 'ice', iceServers: this.#mintIce() });
  }

  /** Says why, closes, and leaves the room. */
  refuse(code: Refusal, message: string, closeCode = CLOSE_POLICY): void {
    if (this.#over) return;
    this.#server.log.info({ member: this.member, code }, 'refused');
    this.#server.metrics.refused(code);
    this.#outbox.send({ type: 'refused', code, message });
    this.#leave(code === 'silent' ? 'silent' : 'dropped');
    this.#socket.close(closeCode, code);
  }

  expel(code: Refusal, message: string): void {
    this.refuse(code, message);
  }

  release(): void {
    this.#room = null;
    this.refuse('server-closing', 'The room has moved to another server: this tab follows it.', CLOSE_RESTART);
  }

  terminate(): void {
    this.#socket.terminate();
  }

  /** In a room. */
  get isMember(): boolean {
    return this.#room !== null;
  }

  #onMessage(data: RawData, isBinary: boolean): void {
    if (this.#over) return;
    const { clock, metrics } = this.#server;
    this.#heardAt = clock.now();
    const startedAt = performance.now();
    try {
      if (this.#isTooFast()) return;
      if (isBinary) throw new ProtocolError('A control message was binary; it must be text.');
      // ws hands over one Buffer unless told otherwise.
      const message = parseControl(ClientMessage, (data as Buffer).toString('utf8'));
      metrics.received(message.type);
      if (this.#early === null) this.#handle(message);
      else this.#early.push(message);
    } catch (error) {
      this.#fail(error);
    } finally {
      metrics.handled((performance.now() - startedAt) / 1000);
    }
  }

  #fail(error: unknown): void {
    if (error instanceof ProtocolError) return this.refuse('bad-message', `${error.message} Reload the page.`);
    if (error instanceof SignalingError) return this.refuse('server-closing', error.message, CLOSE_RESTART);
    this.#server.log.error(outlineOf(error), 'message handler failed');
    this.#leave('dropped');
    this.#socket.close(CLOSE_INTERNAL);
  }

  /** Counts one more frame. Who sends too many is refused. */
  #isTooFast(): boolean {
    if (this.#over || this.#bucket.take()) return false;
    this.refuse('rate-limited', 'This tab sends messages too fast: reload the page.');
    return true;
  }

  #handle(message: ClientMessage): void {
    if (message.type === 'create' || message.type === 'join' || message.type === 'reconnect') {
      if (this.#room !== null) throw new ProtocolError('This connection is in a room already.');
      void this.#begin(message);
      return;
    }
    if (this.#room === null) throw new ProtocolError('The first message must be "create", "join" or "return".');
    if (message.type === 'heartbeat') {
      this.#renewCredentials(this.#room.code);
      return this.send({ type: 'heartbeat' });
    }
    if (message.type === 'leave') {
      this.#leave('left');
      return this.#socket.close(CLOSE_NORMAL);
    }
    // One that is left out is made up for by a later one.
    if (message.type === 'spectator-update' && !this.#news.take()) return;
    this.#room.owner.dispatch(this.#room.code, this, message);
  }

  /**
   * Enters a room, which has to be found first. What the tab says meanwhile waits, most of it in
   * its socket.
   */
  async #begin(message: Extract<ClientMessage, { type: 'create' | 'join' | 'reconnect' }>): Promise<void> {
    const early = (this.#early = []) as ClientMessage[];
    // Finding a room has deadlines of its own.
    this.#cancelTimer();
    this.#socket.pause();
    try {
      if (message.type === 'create') await this.#create(message);
      else if (message.type === 'join') await this.#join(message);
      else await this.#return(message);
      this.#early = null;
      for (const next of early) if (!this.#over) this.#handle(next);
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#socket.resume();
    }
  }

  async #create(message: Extract<ClientMessage, { type: 'create' }>): Promise<void> {
    const { name, browser, rank, isSpectator, job, startAt, nodes } = message;
    const { hub, rooms, openings } = this.#server;
    if (!openings.take(this.#address)) {
      return this.refuse('rate-limited', 'Your network opens rooms too fast: wait a minute, then retry.');
    }
    const code = await rooms.open({ job, startAt, nodes, isPermanent: false });
    if (code === null) return this.refuse('rate-limited', NO_PLACE);
    if (!this.#enter(code, hub, { type: 'join', name, browser, rank, isSpectator, holdsKey: true })) hub.forget(code);
  }

  async #join(message: Extract<ClientMessage, { type: 'join' }>): Promise<void> {
    const { room, name, browser, rank, isSpectator, worldSize, hostKey } = message;
    const { rooms, wrongCodes } = this.#server;
    const owner = await rooms.find(room, 'newcomer');
    // Right codes are refused as well while an address is blocked: else guessing would go on until
    // one fits. (Opening a room guesses nothing: one child's wrong codes must not stop a school.)
    if (wrongCodes.isBlocked(this.#address)) return this.refuse('rate-limited', TOO_MANY_GUESSES);
    if (owner === null) {
      wrongCodes.add(this.#address, room);
      return this.refuse('no-room', noRoom(room));
    }
    const holdsKey = this.#isHost(room, hostKey);
    this.#enter(room, owner, { type: 'join', name, browser, rank, isSpectator, worldSize, holdsKey });
  }

  async #return(message: Extract<ClientMessage, { type: 'reconnect' }>): Promise<void> {
    const { room, member, token, name, browser, rank, isSpectator, hostKey, reconnectState } = message;
    const { rooms, credentials, wrongCodes, revivals } = this.#server;
    const isProven = credentials.isToken(token, room, member);
    let owner = await rooms.find(room, 'member');
    if (!isProven && owner?.awaits(room, member) !== true) {
      // It may be a guess at the room's code. Once too many were wrong, right and wrong ones have
      // the same answer.
      const guesses = credentials.areLasting ? wrongCodes : revivals;
      if (guesses.isBlocked(this.#address)) {
        return this.refuse('rate-limited', credentials.areLasting ? TOO_MANY_GUESSES : TOO_MANY_REVIVALS);
      }
      if (owner === null) guesses.add(this.#address, room);
      // A server that keeps no secret over a restart has to take members at their word, as it does
      // their room's code.
      if (owner !== null || credentials.areLasting) {
        return this.refuse('not-member', 'This tab has no place in the room any more: join it again.');
      }
    }
    const { removed, ...settings } = reconnectState.settings;
    const isSigned = removed !== undefined && credentials.isSeal(removed.seal, room, removed.members);
    // No key opens a lock from before the restart where keys do not outlast it: it would keep out
    // the host itself.
    const isLocked = settings.isLocked && credentials.areLasting;
    const known = { ...reconnectState, settings: { ...settings, isLocked, ...(isSigned && { removed }) } };
    if (owner === null && !this.#over) owner = await rooms.restore(room, known);
    if (owner === null) return this.refuse('rate-limited', NO_PLACE);
    this.#member = member;
    const holdsKey = this.#isHost(room, hostKey);
    this.#enter(room, owner, { type: 'reconnect', name, browser, rank, isSpectator, holdsKey, reconnectState: known });
  }

  #isHost(room: string, hostKey: string | undefined): boolean {
    return hostKey !== undefined && this.#server.credentials.isHostKey(hostKey, room);
  }

  /**
   * Lets the room decide; it answers through {@link admit} or {@link send}. Nobody enters once the
   * connection is over.
   */
  #enter(code: string, owner: RoomOwner, entry: Entry): boolean {
    if (this.#over) return false;
    this.#holdsKey = entry.holdsKey;
    const outcome = owner.enter(code, this, entry);
    if (outcome === 'gone') {
      const message = 'The room moves to another server just now: try again in a few seconds.';
      this.refuse('server-closing', message, CLOSE_RESTART);
    }
    if (outcome !== 'entered') return false;
    this.#room = { code, owner };
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

  /**
   * @param reason `null`: the connection is gone without a word; its member may come back over
   *   another.
   */
  #leave(reason: LeaveReason | null): void {
    this.#over = true;
    this.#cancelTimer();
    const room = this.#room;
    this.#room = null;
    room?.owner.disconnect(room.code, this, reason);
  }
}

/** To who asks for a room that is not there. */
export function noRoom(code: string): string {
  return `There is no room ${code} here: check the code with whoever gave it to you.`;
}

/** An error without its message, which may quote what a member sent. */
export function outlineOf(error: unknown): { error: string; at: string[] } {
  if (!(error instanceof Error)) return { error: typeof error, at: [] };
  const frames = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line));
  return { error: error.name, at: frames.map((line) => line.trim()) };
}
