/** Limits on the work and memory that clients can cause, and the counters that enforce them. */
import type { Clock } from '../src/util/clock.ts';
import { MAX_SPECTATORS } from '../src/protocol/control.ts';
import { MAX_WORLD_SIZE } from '../src/protocol/scalars.ts';
import { siteOf } from './http/address.ts';

export interface Limits {
  /** Milliseconds for the first message of a new connection: an idle one occupies a socket. */
  firstMessageMs: number;
  /**
   * Milliseconds between a member's heartbeats; its worker sends them, so hidden tabs send them in
   * time, too.
   */
  heartbeatMs: number;
  /**
   * Milliseconds of silence after which a member counts as gone: six heartbeats, longer than a
   * Wi-Fi handover.
   */
  silentMs: number;
  /** Messages per second that a connection may send permanently. */
  messagesPerSecond: number;
  /**
   * Messages that a connection may send at once: ICE candidates come in bursts, for two neighbours
   * and retries.
   */
  messageBurst: number;
  /**
   * Unsent bytes after which a slow reader is disconnected: no regular tab is a thousand messages
   * behind.
   */
  maxUnsentBytes: number;
  /**
   * Different wrong codes per minute from one address (for IPv6, one /64). A class shares one
   * address: right codes do not count.
   */
  wrongCodesPerMinute: number;
  /**
   * Rooms per minute that members of one address restore without a token, on a server that has
   * restarted without a lasting secret: as many as they may open at once. Any code may be the one
   * of such a room, so this also limits guesses.
   */
  restoresPerMinute: number;
  /** WebSockets from one address (for IPv6, one /64): four full rooms in one school. */
  socketsPerAddress: number;
  /**
   * New WebSockets per second that one address may open permanently: for tabs that reload and
   * reconnect.
   */
  connectionsPerSecond: number;
  /**
   * New WebSockets that one address may open at once: all of its tabs after a restart of the
   * server.
   */
  connectionBurst: number;
  /** Rooms per minute that tabs of one address may open permanently. */
  roomsPerMinute: number;
  /** Rooms that tabs of one address may open at once: one for each pupil of a class. */
  roomBurst: number;
  /** Rooms on this server: a few KiB each. */
  maxRooms: number;
  /** Members in a room. */
  roomCapacity: number;
  /** Spectators in a room. */
  spectatorCapacity: number;
  /** Spectator updates per second that a connection may send permanently: ranks send one. */
  updatesPerSecond: number;
  /** Spectator updates at once: the end of a run does not wait for the next second. */
  updateBurst: number;
  /** Milliseconds for which a room without members is kept: a tab that reloads finds it again. */
  emptyRoomMs: number;
  /** Milliseconds for members to close their side when the server stops. */
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
  restoresPerMinute: 64,
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

/** Allows `perSecond` permanently and `burst` at once. */
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

  /** Takes one token; returns whether one was left. */
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
/** Most addresses that are remembered; a new one replaces the oldest. */
export const MAX_ADDRESSES = 10_000;

/** A {@link TokenBucket} for each address. */
export class AddressBuckets {
  readonly #create: () => TokenBucket;
  /** In the order of their last use. */
  readonly #byAddress = new Map<string, TokenBucket>();

  constructor(clock: Clock, perSecond: number, burst: number) {
    this.#create = () => new TokenBucket(clock, perSecond, burst);
  }

  /** Takes one of the address's tokens; returns whether one was left. */
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
 * Failures of one site, in multiples of one network's limit: the owner of an IPv6 /48 has 65 536
 * networks.
 */
export const SITE_NETWORKS = 5;
/**
 * Failures of all addresses, in multiples of one network's limit, after which all addresses that
 * failed in this minute are blocked.
 */
export const SERVER_NETWORKS = 50;

/**
 * Counts different failures per minute: of each address, of its site and of all addresses together.
 * A repeated failure counts once: it is not a guess, and a class behind one address repeats it.
 */
export class FailureCounter {
  readonly #perMinute: number;
  readonly #networks: Failures;
  readonly #sites: Failures;
  readonly #server: Failures;

  /** @param perMinute different failures after which an address is blocked. */
  constructor(clock: Clock, perMinute: number) {
    this.#perMinute = perMinute;
    this.#networks = new Failures(clock);
    this.#sites = new Failures(clock);
    this.#server = new Failures(clock);
  }

  /**
   * @param address as returned by {@link networkOf}.
   * @param what identifies the failure.
   */
  add(address: string, what: string): void {
    this.#networks.add(address, what);
    this.#sites.add(siteOf(address), what);
    this.#server.add('', what);
  }

  /** Whether this address, its site or the server has had too many failures in the last minute. */
  isBlocked(address: string): boolean {
    const ofSite = this.#sites.count(siteOf(address));
    if (this.#networks.count(address) >= this.#perMinute || ofSite >= this.#perMinute * SITE_NETWORKS) return true;
    // Addresses without failures are not blocked: otherwise a few could keep out all others.
    return ofSite > 0 && this.#server.count('') >= this.#perMinute * SERVER_NETWORKS;
  }
}

/** Different failures by origin, each kept for a minute after its first. */
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
    // A new minute begins: move it to the end of the order.
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
