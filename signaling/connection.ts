/**
 * One tab's WebSocket. It validates every message, enforces the limits of the sender, and
 * represents the tab in its room. No message of a tab makes this class throw an error into the
 * server. Its logs contain neither messages nor addresses of members.
 */
import { randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import type { RawData, WebSocket } from 'ws';
import {
  ClientMessage,
  type IceServer,
  parseControlMessage,
  type RefusalCode,
  type ServerLinkMode,
  type ServerMessage,
} from '../src/protocol/control.ts';
import { NETWORK_CHECK_ROOM } from '../src/protocol/networkCheck.ts';
import type { Pulse } from '../src/protocol/room.ts';
import { noRoomMessage } from '../src/protocol/roomCode.ts';
import { pulseVerdict } from '../src/util/activity.ts';
import type { Clock } from '../src/util/clock.ts';
import { DEFAULT_JOB } from '../src/spec/job.ts';
import { whyPlanCannotRun } from '../src/spec/plan.ts';
import { ProtocolError, SignalingError } from '../src/util/errors.ts';
import type { Entry, Hub, Peer } from './hub.ts';
import { iceServersFor, renewIceAfterMs, type IceOptions } from './ice.ts';
import type { Credentials } from './credentials.ts';
import { type AddressBuckets, type FailureCounter, type Limits, TokenBucket } from './limits.ts';
import { outlineOf } from './monitoring/errorOutline.ts';
import type { Metrics } from './monitoring/metrics.ts';
import { Outbox } from './outbox.ts';
import { RESTORE_MS, type LeaveReason } from './room/index.ts';
import { SilenceTimer } from './silenceTimer.ts';
import type { RoomLog } from './monitoring/roomLog.ts';
import type { RoomOwner, RoomDirectory } from './roomDirectory.ts';

/** State that all connections of a server share. */
export interface ServerContext {
  readonly hub: Hub;
  readonly rooms: RoomDirectory;
  readonly limits: Limits;
  readonly clock: Clock;
  readonly ice: IceOptions;
  readonly serverLinks: ServerLinkMode;
  readonly credentials: Credentials;
  readonly wrongCodes: FailureCounter;
  /** Counts rooms that members restore without a valid token. */
  readonly restores: FailureCounter;
  /** Limits the number of rooms that tabs of one address open. */
  readonly openings: AddressBuckets;
  readonly bootId: string;
  readonly startedAt: number;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly roomLog: RoomLog;
}

/** WebSocket close codes (RFC 6455, section 7.4.1). */
export const CLOSE_NORMAL = 1000;
const CLOSE_GOING_AWAY = 1001;
export const CLOSE_POLICY = 1008;
const CLOSE_INTERNAL = 1011;
export const CLOSE_RESTART = 1012;

/**
 * The sender may continue after these refusals. After all other refusals the server closes the
 * connection.
 */
const HARMLESS: ReadonlySet<RefusalCode> = new Set<RefusalCode>(['not-host', 'not-now']);

/** A room always has a job, although nobody trains in this one. */
const NEW_CHECK_ROOM = { code: NETWORK_CHECK_ROOM, job: DEFAULT_JOB, startAt: null, nodes: null, isPermanent: false };

/** Random bytes of a member's id. With 96 bits, ids do not collide. */
const MEMBER_BYTES = 12;

const NO_PLACE = 'This server already has its maximum number of rooms. Try again later.';
const TOO_MANY_RESTORES = 'Your network restored too many rooms in a minute. Wait a minute, then retry.';
const TOO_MANY_GUESSES = 'Too many wrong room codes came from your network. Wait a minute, then retry.';

export class Connection implements Peer {
  #member = randomBytes(MEMBER_BYTES).toString('base64url');
  #holdsKey = false;
  readonly #socket: WebSocket;
  /** Address of the tab, as the key of the limits per address. */
  readonly #address: string;
  readonly #server: ServerContext;
  readonly #bucket: TokenBucket;
  readonly #updates: TokenBucket;
  readonly #outbox: Outbox;
  /** The room that the tab is in, and the room's owner. */
  #room: { readonly code: string; readonly owner: RoomOwner } | null = null;
  /** Messages that arrive while the tab is entering a room; `null` at other times. */
  #pending: ClientMessage[] | null = null;
  #isOver = false;
  /** The latest token that the tab received. */
  #token = '';
  /** Time at which ICE servers were last sent to the tab. */
  #iceAt = 0;
  readonly #silence: SilenceTimer;
  /** The latest pulse. */
  #pulse: Pulse | undefined;

  constructor(socket: WebSocket, address: string, server: ServerContext) {
    this.#socket = socket;
    this.#address = address;
    this.#server = server;
    const { clock, limits } = server;
    this.#bucket = new TokenBucket(clock, limits.messagesPerSecond, limits.messageBurst);
    this.#updates = new TokenBucket(clock, limits.updatesPerSecond, limits.updateBurst);
    this.#outbox = new Outbox(socket, server.metrics);
    this.#silence = new SilenceTimer(clock, limits, (message) => this.refuse('silent', message));
    socket.on('message', (data, isBinary) => this.#onMessage(data, isBinary));
    // Only clients that are not browsers send pings. ws answers pings itself, so they are only
    // counted here.
    socket.on('ping', () => this.#isTooFast());
    socket.on('pong', () => this.#isTooFast());
    socket.on('close', (code) => {
      server.log.info({ member: this.member, code }, 'closed');
      // Browsers send the code "going away" (1001) when a page is closed or has crashed. Such a tab
      // will not return.
      this.#leave(code === CLOSE_GOING_AWAY ? 'left' : null);
    });
    // Without a listener, an oversized frame or a reset connection would end the process. The
    // `close` event follows.
    socket.on('error', () => server.log.info({ member: this.member }, 'socket error'));
  }

  get member(): string {
    return this.#member;
  }

  send(message: ServerMessage): void {
    if (message.type === 'refused' && !HARMLESS.has(message.code)) return this.refuse(message.code, message.message);
    if (this.#isOver) return;
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
    const { ice, serverLinks, bootId, limits } = this.#server;
    this.send({
      type: 'admitted',
      member: this.member,
      ...this.#mintCredentials(room),
      room,
      iceServers: this.#mintIce(),
      ...(ice.relayOnly ? { iceTransportPolicy: 'relay' } : {}),
      serverLinks,
      bootId,
      heartbeatMs: limits.heartbeatMs,
    });
  }

  #mintCredentials(room: string): { token: string; hostKey: string | null } {
    const { credentials } = this.#server;
    this.#token = credentials.tokenFor(room, this.member);
    return { token: this.#token, hostKey: this.#holdsKey ? credentials.hostKeyFor(room) : null };
  }

  /**
   * Renews the tab's credentials after half of their lifetime. A member may stay longer than they
   * are valid, but needs valid credentials to return after a lost connection.
   */
  #renewCredentials(room: string): void {
    if (!this.#server.credentials.isHalfOver(this.#token)) return;
    this.send({ type: 'credentials', ...this.#mintCredentials(room) });
  }

  #mintIce(): IceServer[] {
    this.#iceAt = this.#server.clock.now();
    return iceServersFor(this.member, this.#server.ice, Date.now());
  }

  /** Renews the TURN password, which the tab needs to open links. */
  #renewIce(): void {
    const { ice, clock } = this.#server;
    const after = renewIceAfterMs(ice);
    if (after === null || clock.now() - this.#iceAt < after) return;
    this.#outbox.send({ type: 'ice', iceServers: this.#mintIce() });
  }

  /**
   * Whether a pulse must be passed on to the room. It is not passed on if the rank was idle at its
   * previous pulse, is still idle, and has made no progress.
   */
  #tellsNews(pulse: Pulse | undefined): boolean {
    const before = this.#pulse;
    this.#pulse = pulse;
    if (pulse === undefined) return false;
    const isIdle = before !== undefined && [before, pulse].every((one) => pulseVerdict(one) === 'idle');
    return !isIdle || pulse.progress !== before.progress;
  }

  /** Sends the reason, closes the connection, and leaves the room. */
  refuse(code: RefusalCode, message: string, closeCode = CLOSE_POLICY): void {
    if (this.#isOver) return;
    this.#server.log.info({ member: this.member, code }, 'refused');
    this.#server.metrics.refused(code);
    this.#outbox.send({ type: 'refused', code, message });
    this.#leave(code === 'silent' ? 'silent' : 'dropped');
    this.#socket.close(closeCode, code);
  }

  expel(code: RefusalCode, message: string): void {
    this.refuse(code, message);
  }

  release(): void {
    this.#room = null;
    this.refuse('server-closing', 'The room has moved to another server. This tab reconnects to it.', CLOSE_RESTART);
  }

  terminate(): void {
    this.#socket.terminate();
  }

  /** Whether the tab is in a room. */
  get isMember(): boolean {
    return this.#room !== null;
  }

  #onMessage(data: RawData, isBinary: boolean): void {
    if (this.#isOver) return;
    const { metrics } = this.#server;
    this.#silence.received();
    const startedAt = performance.now();
    try {
      if (this.#isTooFast()) return;
      if (isBinary) throw new ProtocolError('A control message was binary; it must be text.');
      // By default, ws delivers a message as one Buffer.
      const message = parseControlMessage(ClientMessage, (data as Buffer).toString('utf8'));
      metrics.received(message.type);
      if (this.#pending === null) this.#handle(message);
      else this.#pending.push(message);
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

  /**
   * Counts one more frame. Returns whether the sender has sent too many, and refuses the sender if
   * so.
   */
  #isTooFast(): boolean {
    if (this.#isOver || this.#bucket.take()) return false;
    this.refuse('rate-limited', 'This tab sends messages too fast. Reload the page.');
    return true;
  }

  #handle(message: ClientMessage): void {
    if (message.type === 'create' || message.type === 'join' || message.type === 'reconnect') {
      if (this.#room !== null) throw new ProtocolError('This connection is already in a room.');
      void this.#begin(message);
      return;
    }
    if (this.#room === null) throw new ProtocolError('The first message must be "create", "join" or "reconnect".');
    if (message.type === 'heartbeat') {
      this.#renewCredentials(this.#room.code);
      this.send({ type: 'heartbeat' });
      this.#silence.allow(message.pulse?.lateMs ?? 0);
      if (!this.#tellsNews(message.pulse)) return;
    }
    if (message.type === 'leave') {
      this.#leave('left');
      return this.#socket.close(CLOSE_NORMAL);
    }
    // A dropped spectator update does no harm: a later one contains everything.
    if (message.type === 'spectator-update' && !this.#updates.take()) return;
    this.#room.owner.dispatch(this.#room.code, this, message);
  }

  /**
   * Enters a room, which must be found first. Messages that arrive in the meantime wait, most of
   * them in the socket's buffer.
   */
  async #begin(message: Extract<ClientMessage, { type: 'create' | 'join' | 'reconnect' }>): Promise<void> {
    const pending = (this.#pending = []) as ClientMessage[];
    // The search for a room has its own deadlines, so the tab may be silent meanwhile.
    this.#silence.stop();
    this.#socket.pause();
    try {
      if (message.type === 'create') await this.#create(message);
      else if (message.type === 'join') await this.#join(message);
      else await this.#reconnect(message);
      this.#pending = null;
      for (const next of pending) if (!this.#isOver) this.#handle(next);
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
      return this.refuse('rate-limited', 'Your network opens rooms too fast. Wait a minute, then retry.');
    }
    const why = whyPlanCannotRun(job, startAt ?? 1);
    if (why !== null) return this.refuse('mismatch', `The room cannot be opened: ${why}. Choose the ring or auto.`);
    const code = await rooms.open({ job, startAt, nodes, isPermanent: false });
    if (code === null) return this.refuse('rate-limited', NO_PLACE);
    if (!this.#enter(code, hub, { type: 'join', name, browser, rank, isSpectator, holdsKey: true })) hub.forget(code);
  }

  async #join(message: Extract<ClientMessage, { type: 'join' }>): Promise<void> {
    const { room, name, browser, rank, isSpectator, worldSize, hostKey } = message;
    const { rooms, wrongCodes } = this.#server;
    let owner = await rooms.find(room, 'newcomer');
    if (owner === null && room === NETWORK_CHECK_ROOM) {
      // Another tab may open the room at the same moment.
      await rooms.open(NEW_CHECK_ROOM).catch(() => null);
      owner = await rooms.find(room, 'newcomer');
    }
    // While an address is blocked, right codes are refused as well, so that a client cannot
    // continue to guess until one code is right. (Such an address may still create rooms, because
    // creating a room is not a guess.)
    if (wrongCodes.isBlocked(this.#address)) return this.refuse('rate-limited', TOO_MANY_GUESSES);
    if (owner === null) {
      wrongCodes.add(this.#address, room);
      const { clock, startedAt } = this.#server;
      return this.refuse('no-room', noRoomMessage(room, startedAt + RESTORE_MS - clock.now()));
    }
    const holdsKey = this.#isHost(room, hostKey);
    this.#enter(room, owner, { type: 'join', name, browser, rank, isSpectator, worldSize, holdsKey });
  }

  async #reconnect(message: Extract<ClientMessage, { type: 'reconnect' }>): Promise<void> {
    const { room, member, token, name, browser, rank, isSpectator, hostKey, reconnectState } = message;
    const { rooms, credentials, wrongCodes, restores } = this.#server;
    // The room of network checks has no state to restore.
    if (room === NETWORK_CHECK_ROOM) return this.refuse('not-member', 'The network check is over. Start it again.');
    const isProven = credentials.isToken(token, room, member);
    let owner = await rooms.find(room, 'member');
    if (!isProven && owner?.awaits(room, member) !== true) {
      // The request may be a guess of the room's code. After too many wrong codes, right and wrong
      // codes get the same answer.
      const guesses = credentials.areLasting ? wrongCodes : restores;
      if (guesses.isBlocked(this.#address)) {
        return this.refuse('rate-limited', credentials.areLasting ? TOO_MANY_GUESSES : TOO_MANY_RESTORES);
      }
      if (owner === null) guesses.add(this.#address, room);
      // A server without a lasting secret cannot verify tokens after a restart. So a member that
      // returns to a room of such a server needs only the room's code.
      if (owner !== null || credentials.areLasting) {
        return this.refuse('not-member', 'This tab is no longer a member of the room. Join it again.');
      }
    }
    const { removed, ...settings } = reconnectState.settings;
    const isSigned = removed !== undefined && credentials.isSeal(removed.seal, room, removed.members);
    // Without a lasting secret, host keys become invalid when the server restarts. A host could
    // then not enter a locked room with its key. So the room is restored without its lock.
    const isLocked = settings.isLocked && credentials.areLasting;
    const known = { ...reconnectState, settings: { ...settings, isLocked, ...(isSigned && { removed }) } };
    if (owner === null && !this.#isOver) owner = await rooms.restore(room, known);
    if (owner === null) return this.refuse('rate-limited', NO_PLACE);
    this.#member = member;
    const holdsKey = this.#isHost(room, hostKey);
    this.#enter(room, owner, { type: 'reconnect', name, browser, rank, isSpectator, holdsKey, reconnectState: known });
  }

  #isHost(room: string, hostKey: string | undefined): boolean {
    return hostKey !== undefined && this.#server.credentials.isHostKey(hostKey, room);
  }

  /**
   * Sends the request to the room, which answers through {@link admit} or {@link send}. Does
   * nothing if the connection is closed. Returns whether the tab has entered the room.
   */
  #enter(code: string, owner: RoomOwner, entry: Entry): boolean {
    if (this.#isOver) return false;
    this.#holdsKey = entry.holdsKey;
    if (entry.type === 'reconnect') this.#silence.allow(entry.reconnectState.lateMs ?? 0);
    const outcome = owner.enter(code, this, entry);
    if (outcome === 'gone') {
      const message = 'The room is moving to another server. Try again in a few seconds.';
      this.refuse('server-closing', message, CLOSE_RESTART);
    }
    if (outcome !== 'entered') return false;
    this.#room = { code, owner };
    this.#silence.watch();
    return true;
  }

  /**
   * @param reason `null`: the connection was lost, and its member may return over another
   * connection.
   */
  #leave(reason: LeaveReason | null): void {
    this.#isOver = true;
    this.#silence.stop();
    const room = this.#room;
    this.#room = null;
    room?.owner.disconnect(room.code, this, reason);
  }
}
