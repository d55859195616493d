/**
 * Rooms that several processes serve. Each room has one owner: the process that opened or restored
 * it. The owner has a lease on the room in Redis and the room's state in memory. The other
 * processes relay their members' messages to the owner. If an owner dies, its leases expire. The
 * members of a room then reconnect to any process, and each sends its own state. The first process
 * that a member of the room reaches becomes the owner.
 */
import { randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import type { ReconnectReport } from '../../src/protocol/room.ts';
import type { Clock } from '../../src/util/clock.ts';
import { withinDeadline } from '../../src/util/deadline.ts';
import { errorMessageOf, SignalingError, UsageError } from '../../src/util/errors.ts';
import { outlineOf } from '../monitoring/errorOutline.ts';
import type { Hub, NewRoom } from '../hub.ts';
import type { LinkPlace, ServerLinks } from '../links/serverLinks.ts';
import type { Metrics } from '../monitoring/metrics.ts';
import type { RoomLog } from '../monitoring/roomLog.ts';
import type { RoomOwner, RoomDirectory } from '../roomDirectory.ts';
import { encodeMessage, parseMessage, type Envelope, type Letter } from './envelope.ts';
import { PeerProcess } from './peerProcess.ts';
import { LEASE_MS, noAnswer, RedisLink } from './redisLink.ts';

/** Milliseconds between two renewals of a lease. Two renewals may fail before the lease expires. */
const RENEW_MS = 2_000;
/**
 * Milliseconds before the first attempt to reopen a lost connection to Redis. The wait is doubled
 * after each attempt, up to {@link MAX_RECONNECT_MS}.
 */
const RECONNECT_MS = 250;
const MAX_RECONNECT_MS = 2_000;
/**
 * Milliseconds between two lookups of a room whose owner does not listen: the owner may return
 * before its lease expires.
 */
const LOOK_MS = 500;

/** Time limit in milliseconds for the last commands to Redis when the server closes. */
const END_MS = 1_000;

const ID_BYTES = 12;

/**
 * Types of messages that another process may send first. `frame` is one of them, because a frame
 * that arrives after its link has ended has to be acknowledged, too.
 */
const FIRST: ReadonlySet<Letter['type']> = new Set<Letter['type']>(['enter', 'ask', 'pair', 'frame']);

export interface SharedRoomsOptions {
  /** URL of Redis. */
  url: string;
  hub: Hub;
  clock: Clock;
  log: Logger;
  roomLog: RoomLog;
  metrics: Metrics;
}

export class SharedRooms implements RoomDirectory {
  /** Links of this process; `null` if it forwards none. */
  links: ServerLinks | null = null;
  readonly #options: SharedRoomsOptions;
  readonly #processId = randomBytes(ID_BYTES).toString('base64url');
  /** `null` while Redis is not connected. */
  #link: RedisLink | null = null;
  #links = 0;
  #connections = 0;
  /** Other processes by address. */
  readonly #peers = new Map<string, PeerProcess>();
  /** Rooms whose leases this process has requested and not released. */
  #held = new Set<string>();
  #secret: string | null = null;
  #isRenewing = false;
  #isClosed = false;
  #cancelRenewal: () => void = () => {};
  #cancelReconnect: () => void = () => {};
  /** Cancels the timer that fires when the leases expire. */
  #cancelExpiry: () => void = () => {};

  private constructor(options: SharedRoomsOptions) {
    this.#options = options;
  }

  /** @throws (rejects) UsageError for an invalid URL, SignalingError if the connection fails. */
  static async start(options: SharedRoomsOptions): Promise<SharedRooms> {
    const shared = new SharedRooms(options);
    await shared.#connect();
    return shared;
  }

  /** Whether this process can find the rooms of other processes, and they can find its rooms. */
  get isReady(): boolean {
    return this.#link !== null;
  }

  /**
   * Returns the secret that all processes share. The first process creates it. This function is
   * called again whenever Redis may have lost the secret.
   */
  async shareSecret(): Promise<string> {
    const mine = this.#secret ?? randomBytes(32).toString('base64url');
    const shared = await this.#connected().agreeOnSecret(mine);
    if (this.#secret !== null && shared !== this.#secret) {
      this.#options.log.error('the secret in Redis has changed: restart this process, or set PEERGRAD_SECRET');
    }
    return (this.#secret ??= shared);
  }

  async open(room: NewRoom): Promise<string | null> {
    const { hub } = this.#options;
    for (;;) {
      const code = room.code ?? hub.unusedCode();
      if (!hub.has(code) && (await this.#take(code)) && !hub.has(code)) return hub.open({ ...room, code });
      if (room.code !== undefined) throw new UsageError(`The room ${code} already exists.`);
    }
  }

  async find(code: string, who: 'member' | 'newcomer'): Promise<RoomOwner | null> {
    const { hub } = this.#options;
    let isMoving = false;
    for (;;) {
      if (hub.has(code)) return hub;
      const link = this.#connected();
      const owner = await link.ownerOf(code);
      if (owner === null || owner.isThis) return hub.has(code) || (isMoving && who === 'newcomer') ? hub : null;
      if (await link.isListening(owner.address)) return this.#peer(owner.address);
      // No process listens at the owner's address. The owner has died, is cut off, or will return
      // at a different address.
      isMoving = true;
      await this.#wait(Math.min(LOOK_MS, Math.max(owner.restMs, 0) + 1));
    }
  }

  async restore(code: string, reconnectState: ReconnectReport): Promise<RoomOwner | null> {
    const { hub } = this.#options;
    for (;;) {
      const owner = await this.find(code, 'member');
      if (owner !== null) return owner;
      if (await this.#take(code)) return hub.has(code) || hub.restore(code, reconnectState) ? hub : null;
    }
  }

  /**
   * Tells the other processes that an end of a link waits here. Returns the number by which they
   * know it.
   */
  announce({ room, generation, member, peer, channel }: LinkPlace): number {
    const connection = ++this.#connections;
    this.#sendToAll({ type: 'alone', connection, room, generation, member, peer, channel });
    return connection;
  }

  /** Tells the other processes that a member is no longer in its room, so its links end. */
  left(room: string, member: string): void {
    if (this.links !== null) this.#sendToAll({ type: 'left', room, member });
  }

  /** Gives up all rooms and informs the other processes. The caller has closed the hub already. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const cancel of [this.#cancelRenewal, this.#cancelReconnect, this.#cancelExpiry]) cancel();
    const link = this.#link;
    if (link === null) return;
    // The rooms are released before the other processes are informed: members that return then find
    // free rooms.
    const released = link.release([...this.#held]);
    for (const peer of [...this.#peers.values()]) peer.part();
    this.#link = null;
    await withinDeadline(this.#options.clock, END_MS, Promise.all([released, link.end()]), noAnswer).catch(
      (error: unknown) => {
        this.#options.log.warn({ error: errorMessageOf(error) }, 'leases were not released and will expire');
      },
    );
    link.close();
  }

  /**
   * Returns the connection to Redis.
   * @throws SignalingError while Redis is not connected.
   */
  #connected(): RedisLink {
    if (this.#link !== null) return this.#link;
    throw new SignalingError('This server has lost the connection to the other servers. Try again in a few seconds.');
  }

  async #take(code: string): Promise<boolean> {
    const [isMine = false] = await this.#connected().hold([code]);
    if (isMine) this.#held.add(code);
    return isMine;
  }

  async #connect(): Promise<void> {
    const { url, clock, log } = this.#options;
    const link = await RedisLink.connect(
      { url, clock, processId: this.#processId, count: ++this.#links },
      (from, message) => this.#receive(from, message),
      (lost) => this.#onLost(lost),
    );
    if (this.#isClosed) return link.close();
    this.#link = link;
    log.info('connected to Redis');
    this.#isRenewing = false;
    this.#renew(link);
    if (this.#secret !== null) await this.shareSecret();
  }

  #onLost(link: RedisLink): void {
    if (this.#link !== link) return;
    this.#link = null;
    this.#cancelRenewal();
    if (this.#isClosed) return;
    this.#options.log.warn('lost the connection to Redis: rooms here continue until their leases expire');
    for (const peer of [...this.#peers.values()]) peer.end();
    this.#reconnect(RECONNECT_MS);
  }

  #reconnect(ms: number): void {
    this.#cancelReconnect = this.#options.clock.after(ms, () => {
      this.#connect().catch((error: unknown) => {
        this.#options.log.warn({ error: errorMessageOf(error) }, 'reconnecting to Redis failed');
        if (this.#link === null && !this.#isClosed) this.#reconnect(Math.min(2 * ms, MAX_RECONNECT_MS));
      });
    });
  }

  /**
   * Renews all leases every {@link RENEW_MS}. If Redis has not answered one renewal before the next
   * one is due, the connection is treated as lost.
   */
  #renew(link: RedisLink): void {
    if (this.#isRenewing) return link.close();
    this.#isRenewing = true;
    this.#cancelRenewal = this.#options.clock.after(RENEW_MS, () => this.#renew(link));
    this.#extend(link).catch((error: unknown) => {
      this.#options.log.warn({ error: errorMessageOf(error) }, 'renewing leases failed');
      link.close();
      this.#onLost(link);
    });
  }

  async #extend(link: RedisLink): Promise<void> {
    const { hub, clock } = this.#options;
    const since = clock.now();
    const codes = hub.codes;
    const over = [...this.#held].filter((code) => !hub.has(code));
    this.#held = new Set(codes);
    const [isHeld] = await Promise.all([link.hold(codes), link.release(over)]);
    if (link !== this.#link) return;
    this.#isRenewing = false;
    // Redis receives the renewal after `since`, so the lease expires here before it expires in
    // Redis.
    this.#cancelExpiry();
    this.#cancelExpiry = clock.after(Math.max(0, since + LEASE_MS - clock.now()), () => this.#drop(hub.codes));
    this.#drop(codes.filter((_, i) => !isHeld[i]));
  }

  /** Drops rooms on which another process has a lease, or may have one. */
  #drop(codes: readonly string[]): void {
    const { hub, log, roomLog } = this.#options;
    for (const code of codes) {
      log.warn({ room: roomLog.nameOf(code) }, 'lease lost: room dropped');
      this.#held.delete(code);
      hub.release(code);
    }
  }

  #peer(address: string): PeerProcess {
    const { hub, clock, log } = this.#options;
    const known = this.#peers.get(address);
    if (known !== undefined) return known;
    const peer = new PeerProcess({
      address,
      hub,
      clock,
      count: () => ++this.#connections,
      links: () => this.links,
      send: (letter, frame) => this.#send(address, peer, letter, frame),
      onover: () => {
        this.#peers.delete(address);
        log.info({ process: address }, 'relaying with another process ended');
      },
    });
    this.#peers.set(address, peer);
    return peer;
  }

  #send(address: string, peer: PeerProcess, letter: Letter, frame: Buffer | null): void {
    const link = this.#link;
    if (link === null) return;
    this.#options.metrics.processMessage('sent');
    link.publish(address, encodeMessage({ ...letter, from: link.address }, frame)).then(
      (isDelivered) => {
        if (!isDelivered) peer.end();
      },
      // An error needs no handling, because the link to Redis reports its own end.
      () => {},
    );
  }

  #sendToAll(letter: Letter): void {
    const link = this.#link;
    if (link === null) return;
    this.#options.metrics.processMessage('sent');
    // An error needs no handling, because the link to Redis reports its own end.
    link.publishToAll(encodeMessage({ ...letter, from: link.address }, null)).catch(() => {});
  }

  #receive(link: RedisLink, message: Buffer): void {
    const { log, metrics } = this.#options;
    metrics.processMessage('received');
    const parsed = parseMessage(message);
    if (parsed === null) return log.warn({ length: message.length }, 'invalid envelope from another process');
    const { envelope, frame } = parsed;
    // This process also receives the messages that it sends to all processes.
    if (envelope.from === link.address) return;
    // Waits until all responses from Redis that arrived earlier are handled, because one of them
    // may have made this process the owner of a room.
    setImmediate(() => {
      if (link !== this.#link) return;
      try {
        this.#handle(envelope, frame);
      } catch (error) {
        log.error(outlineOf(error), 'handling a message of another process failed');
      }
    });
  }

  #handle(envelope: Envelope, frame: Buffer): void {
    const { type, from } = envelope;
    if (type === 'left') return this.links?.closeMember(envelope.room, envelope.member);
    if (type === 'alone') return void this.links?.join(envelope, (own) => this.#peer(from).meet(own, envelope));
    if (FIRST.has(type) || this.#peers.has(from)) this.#peer(from).receive(envelope, frame);
  }

  /** Waits for `ms` milliseconds. */
  async #wait(ms: number): Promise<void> {
    await new Promise<void>((resolve) => this.#options.clock.after(ms, resolve));
  }
}
