/** Limits on the work and memory that clients can cause, and the counters that enforce them. */
import type { Clock } from '../src/util/clock.ts';
import { MAX_SPECTATORS } from '../src/protocol/control.ts';
import { MAX_WORLD_SIZE } from '../src/protocol/scalars.ts';
import { FIRST_THREAD_TASK_LIMIT_MS, MAX_LINE_DELAY_MS } from '../src/util/activity.ts';
import { siteOf } from './http/address.ts';

export interface Limits {
  /**
   * Milliseconds within which a new connection must send its first message, because an idle
   * connection occupies a socket. A tab sends it immediately, but the data of its links may delay
   * it. {@link socketsPerAddress} bounds the connections that wait.
   */
  firstMessageMs: number;
  /**
   * Milliseconds between a member's heartbeats. The member's worker sends them, so they are on time
   * in hidden tabs, too.
   */
  heartbeatMs: number;
  /**
   * Milliseconds of silence after which a member is considered gone. This is the time of six
   * heartbeats, and longer than a Wi-Fi handover.
   */
  silentMs: number;
  /** Average number of messages per second that a connection may send. */
  messagesPerSecond: number;
  /**
   * Messages that a connection may send in one burst. ICE candidates arrive in bursts when a tab
   * connects to its two neighbours, and again when it retries. A program may open links to all
   * other ranks, with a dozen messages for each.
   */
  messageBurst: number;
  /**
   * Unsent bytes after which the server closes the connection of a slow reader. They correspond to
   * hundreds of usual messages or eight of the longest. A tab that works never reaches this limit.
   */
  maxUnsentBytes: number;
  /**
   * Number of different wrong room codes per minute that one address (for IPv6, one /64) may send.
   * A class shares one address, so only wrong codes are counted.
   */
  wrongCodesPerMinute: number;
  /**
   * Rooms per minute that members of one address may restore without a token, on a server that has
   * restarted without a lasting secret. The limit is equal to the number of rooms that they may
   * open in one burst. A request to restore a room may also be a guess of a code, so this limits
   * guesses as well.
   */
  restoresPerMinute: number;
  /**
   * Maximum number of open WebSockets from one address (for IPv6, one /64): enough for two full
   * rooms with all their spectators in one school, if each rank links to both its neighbours
   * through the server. They also suffice for a room of 30 ranks that all link to each other.
   */
  socketsPerAddress: number;
  /**
   * Average number of new WebSockets per second that one address may open, for tabs that reload and
   * reconnect.
   */
  connectionsPerSecond: number;
  /**
   * New WebSockets that one address may open in one burst: after a restart of the server, all of
   * its tabs reconnect, and open their links again.
   */
  connectionBurst: number;
  /** Average number of rooms per minute that tabs of one address may open. */
  roomsPerMinute: number;
  /** Rooms that tabs of one address may open in one burst: one for each pupil of a class. */
  roomBurst: number;
  /**
   * Maximum number of rooms on this server. A room needs a few KiB of memory; with 256 members,
   * about 100 KiB.
   */
  maxRooms: number;
  /** Maximum number of members in a room. */
  roomCapacity: number;
  /** Maximum number of spectators in a room. */
  spectatorCapacity: number;
  /**
   * Average number of spectator updates per second that a connection may send. A rank sends one
   * update per second.
   */
  updatesPerSecond: number;
  /**
   * Spectator updates that a connection may send in one burst. At the end of a run, a rank sends an
   * update without waiting for the next second.
   */
  updateBurst: number;
  /**
   * Milliseconds for which a room without members is kept, so that a tab that reloads finds the
   * room again.
   */
  emptyRoomMs: number;
  /** Milliseconds that members have to close their connections when the server stops. */
  closeGraceMs: number;
  /**
   * Time limit in milliseconds: first for the first message of a new WebSocket of a link, then for
   * the arrival of the other end.
   */
  linkOpeningMs: number;
  /** Maximum number of WebSockets of a member's links: two for each possible peer. */
  linksPerMember: number;
  /**
   * Maximum number of WebSockets of a member's links to the same peer: one in each of two
   * generations, and twice as many, because an attempt may be repeated before the server has
   * noticed the end of the last one.
   */
  linksPerPair: number;
  /**
   * Bytes that may wait for one end of a link before the server stops reading from the other end.
   * An end never has more on its way, because this is also the window of a link through the server.
   */
  linkBytes: number;
  /**
   * Bytes that may wait for the ends of all links. If more bytes wait, the server reads from an end
   * only when nothing waits for the other end. This applies to rooms that have more than an equal
   * share of these bytes.
   */
  allLinksBytes: number;
  /** If more bytes wait for the ends of all links, the link with most of them ends. */
  maxAllLinksBytes: number;
  /** Milliseconds between pings to an end of a link. Many proxies close idle sockets after 60 s. */
  linkPingMs: number;
  /**
   * Milliseconds after which a link ends if one end answers no pings, or takes no bytes that wait
   * for it. The time is long, because an end that computes its first task reads nothing meanwhile.
   */
  linkSilentMs: number;
  /**
   * Bytes per second that all links may forward. A forwarded byte crosses the server's line twice.
   */
  serverLinksBytesPerSecond: number;
}

const MIB = 1024 * 1024;

export const DEFAULT_LIMITS: Limits = {
  firstMessageMs: MAX_LINE_DELAY_MS,
  heartbeatMs: 2_000,
  silentMs: 12_000,
  messagesPerSecond: 20,
  messageBurst: 4000,
  maxUnsentBytes: MIB,
  wrongCodesPerMinute: 20,
  restoresPerMinute: 64,
  socketsPerAddress: 2048,
  connectionsPerSecond: 10,
  connectionBurst: 2048,
  roomsPerMinute: 20,
  roomBurst: 64,
  maxRooms: 1000,
  roomCapacity: MAX_WORLD_SIZE,
  spectatorCapacity: MAX_SPECTATORS,
  updatesPerSecond: 1.5,
  updateBurst: 4,
  emptyRoomMs: 60_000,
  closeGraceMs: 1_000,
  linkOpeningMs: 15_000,
  linksPerMember: 2 * MAX_WORLD_SIZE,
  linksPerPair: 4,
  linkBytes: MIB,
  allLinksBytes: 32 * MIB,
  maxAllLinksBytes: 128 * MIB,
  linkPingMs: 20_000,
  linkSilentMs: FIRST_THREAD_TASK_LIMIT_MS,
  serverLinksBytesPerSecond: 125e6,
};

/** Allows `perSecond` actions per second on average, and up to `burst` actions in one burst. */
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
/** Maximum number of remembered addresses. A new address replaces the oldest. */
export const MAX_ADDRESSES = 10_000;

/** A {@link TokenBucket} for each address. */
export class AddressBuckets {
  readonly #create: () => TokenBucket;
  /** The buckets in the order of their last use. */
  readonly #byAddress = new Map<string, TokenBucket>();

  constructor(clock: Clock, perSecond: number, burst: number) {
    this.#create = () => new TokenBucket(clock, perSecond, burst);
  }

  /** Tries to take a token of an address. Returns `false` if none is left. */
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
 * Limit for the failures of one site, in multiples of the limit for one network. A site is an IPv6
 * /48 with 65 536 networks, all of one owner, so limits for single networks do not suffice.
 */
export const SITE_NETWORKS = 5;
/**
 * Limit for the failures of all addresses together, in multiples of the limit for one network.
 * Above it, all addresses that failed in this minute are blocked.
 */
export const SERVER_NETWORKS = 50;

/**
 * Counts different failures per minute: of each address, of its site and of all addresses together.
 * A repeated failure is counted only once: it is not a new guess, and tabs of a class behind one
 * address often repeat the same failure.
 */
export class FailureCounter {
  readonly #perMinute: number;
  readonly #networks: Failures;
  readonly #sites: Failures;
  readonly #server: Failures;

  /** @param perMinute number of different failures per minute after which an address is blocked. */
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

  /**
   * Whether this address or its site had too many failures in the last minute. Also true if all
   * addresses together had too many, and this site had at least one.
   */
  isBlocked(address: string): boolean {
    const ofSite = this.#sites.count(siteOf(address));
    if (this.#networks.count(address) >= this.#perMinute || ofSite >= this.#perMinute * SITE_NETWORKS) return true;
    // Addresses without failures are not blocked, so that a few addresses cannot keep out all
    // others.
    return ofSite > 0 && this.#server.count('') >= this.#perMinute * SERVER_NETWORKS;
  }
}

/**
 * Counts different failures by origin: an address, a site or, for all addresses together, an empty
 * text. An origin's failures are forgotten one minute after the first of them.
 */
class Failures {
  readonly #clock: Clock;
  /** Failures by origin, in the order in which their minutes began. */
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
    // A new minute begins, so the origin moves to the end of the order.
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
