/**
 * Every number that bounds what strangers can make the server do, and the counters that hold them
 * to it.
 */
import type { Clock } from '../src/util/clock.ts';
import { MAX_SPECTATORS } from '../src/protocol/control.ts';
import { MAX_WORLD_SIZE } from '../src/protocol/scalars.ts';
import { siteOf } from './http/address.ts';

export interface Limits {
  /**
   * Milliseconds a new connection has for its first message: who connects and says nothing holds a
   * socket.
   */
  firstMessageMs: number;
  /**
   * Milliseconds between a member's heartbeats; its worker sends them, so a hidden tab keeps the
   * pace.
   */
  heartbeatMs: number;
  /**
   * Milliseconds of silence after which a member is gone: six heartbeats, longer than a Wi-Fi
   * handover.
   */
  silentMs: number;
  /** Messages a second a connection may send for long. */
  messagesPerSecond: number;
  /**
   * Messages a connection may send at once: ICE candidates come in bursts, for two neighbours and
   * retries.
   */
  messageBurst: number;
  /**
   * Bytes waiting for a slow reader before it is cut off: no honest tab is a thousand messages
   * behind.
   */
  maxUnsentBytes: number;
  /**
   * Different wrong codes a minute from one address (of IPv6, one /64). A class shares one address:
   * right codes do not count.
   */
  wrongCodesPerMinute: number;
  /**
   * Rooms a minute that members of one address bring back without a proof, to a server that has
   * restarted and kept no secret: as many as they may open at once. Any code may be the one of such
   * a room, so this, too, is a limit on guesses.
   */
  revivalsPerMinute: number;
  /** WebSockets from one address (of IPv6, one /64): four full rooms in one school. */
  socketsPerAddress: number;
  /**
   * New WebSockets a second from one address for long: tabs that reload and return, not a program.
   */
  connectionsPerSecond: number;
  /**
   * New WebSockets from one address at once: as many as it may have, when the server has been away.
   */
  connectionBurst: number;
  /** Rooms a minute that tabs of one address may open for long. */
  roomsPerMinute: number;
  /** Rooms that tabs of one address may open at once: one for each pupil of a class. */
  roomBurst: number;
  /** Rooms on this server: a few KiB each. */
  maxRooms: number;
  /** Members in a room. */
  roomCapacity: number;
  /** Who may watch in a room, beside its members. */
  spectatorCapacity: number;
  /** Digests of a run a connection may have handed on each second for long: ranks send one. */
  updatesPerSecond: number;
  /** Digests at once: a run that ends does not wait for its second. */
  updateBurst: number;
  /**
   * Milliseconds a room that a tab made outlasts its last member: one who reloads the page finds it
   * again.
   */
  emptyRoomMs: number;
  /** Milliseconds that members have to close their side when the server stops. */
  closeGraceMs: number;
}

export const DEFAULT_LIMITS: Limits = {
  firstMessageMs: 5_000,
  heartbeatMs: 2_000,
  silentMs: 12_000,
  messagesPerSecond: 20,
  messageBurst: 1000,
  maxUnsentBytes: 1024 * 1024,
  wrongCodesPerMinute: 20,
  revivalsPerMinute: 64,
  socketsPerAddress: 256,
  connectionsPerSecond: 10,
  connectionBurst: 256,
  roomsPerMinute: 20,
  roomBurst: 64,
  maxRooms: 1000,
  roomCapacity: MAX_WORLD_SIZE,
  spectatorCapacity: MAX_SPECTATORS,
  updatesPerSecond: 1.5,
  updateBurst: 4,
  emptyRoomMs: 60_000,
  closeGraceMs: 1_000,
};

/** Lets `perSecond` through for long and `burst` at once. */
export class TokenBucket {
  readonly #clock: Clock;
  readonly #perSecond: number;
  readonly #burst: number;
  #tokens: number;
  #at: number;

  constructor(clock: Clock, perSecond: number, burst: number) {
    this.#clock = clock;
    this.#perSecond = perSecond;
    this.#burst = burst;
    this.#tokens = burst;
    this.#at = clock.now();
  }

  /** Takes one token; `false` when there is none. */
  take(): boolean {
    const now = this.#clock.now();
    this.#tokens = Math.min(this.#burst, this.#tokens + ((now - this.#at) / 1000) * this.#perSecond);
    this.#at = now;
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }
}

const MINUTE_MS = 60_000;
/** Addresses remembered at most; a further one takes the place of the oldest. */
export const MAX_ADDRESSES = 10_000;

/** A {@link TokenBucket} for each address. */
export class AddressBuckets {
  readonly #create: () => TokenBucket;
  /** In the order of their last use. */
  readonly #byAddress = new Map<string, TokenBucket>();

  constructor(clock: Clock, perSecond: number, burst: number) {
    this.#create = () => new TokenBucket(clock, perSecond, burst);
  }

  /** Takes one of the address's tokens; `false` when there is none. */
  take(address: string): boolean {
    const bucket = this.#byAddress.get(address) ?? this.#create();
    this.#byAddress.delete(address);
    const [oldest] = this.#byAddress.keys();
    if (oldest !== undefined && this.#byAddress.size >= MAX_ADDRESSES) this.#byAddress.delete(oldest);
    this.#byAddress.set(address, bucket);
    return bucket.take();
  }
}

/**
 * Networks' worth of failures that one site may have: whoever owns an IPv6 /48 chooses among 65 536
 * networks.
 */
export const SITE_NETWORKS = 5;
/**
 * Networks' worth of failures after which the server lets nobody go on who has failed in that
 * minute.
 */
export const SERVER_NETWORKS = 50;

/**
 * Counts different failures, minute by minute: of each address, of its site and of all addresses
 * together. A failure that is repeated counts once: it guesses nothing, and a class that waits
 * behind one address repeats the same.
 */
export class FailureCounter {
  readonly #perMinute: number;
  readonly #networks: Failures;
  readonly #sites: Failures;
  readonly #server: Failures;

  /** @param perMinute different failures of one address from which on it is blocked. */
  constructor(clock: Clock, perMinute: number) {
    this.#perMinute = perMinute;
    this.#networks = new Failures(clock);
    this.#sites = new Failures(clock);
    this.#server = new Failures(clock);
  }

  /** @param address as {@link networkOf} has it. @param what tells this failure from others. */
  add(address: string, what: string): void {
    this.#networks.add(address, what);
    this.#sites.add(siteOf(address), what);
    this.#server.add('', what);
  }

  /** Whether this address, its site or the server has had too many failures in the last minute. */
  isBlocked(address: string): boolean {
    const ofSite = this.#sites.count(siteOf(address));
    if (this.#networks.count(address) >= this.#perMinute || ofSite >= this.#perMinute * SITE_NETWORKS) return true;
    // Addresses that have not failed go on: else a few that do could keep everybody else out.
    return ofSite > 0 && this.#server.count('') >= this.#perMinute * SERVER_NETWORKS;
  }
}

/** The different failures of each of many, each for a minute from its first. */
class Failures {
  readonly #clock: Clock;
  /** In the order in which their minutes began. */
  readonly #byOrigin = new Map<string, { readonly seen: Set<string>; readonly until: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(origin: string, what: string): void {
    const now = this.#clock.now();
    const entry = this.#byOrigin.get(origin);
    if (entry !== undefined && entry.until > now) {
      entry.seen.add(what);
      return;
    }
    // Its minute begins anew: to the end of the order.
    this.#byOrigin.delete(origin);
    const [oldest] = this.#byOrigin.keys();
    if (oldest !== undefined && this.#byOrigin.size >= MAX_ADDRESSES) this.#byOrigin.delete(oldest);
    this.#byOrigin.set(origin, { seen: new Set([what]), until: now + MINUTE_MS });
  }

  count(origin: string): number {
    const entry = this.#byOrigin.get(origin);
    return entry === undefined || entry.until <= this.#clock.now() ? 0 : entry.seen.size;
  }
}
