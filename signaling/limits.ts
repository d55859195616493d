/** Every number that bounds what strangers can make the server do, and the counters that hold them to it. */
import type { Clock } from '../src/util/clock.ts';
import { MAX_SPECTATORS, MAX_WORLD_SIZE } from '../src/protocol/control.ts';

export interface Limits {
  /** Milliseconds a new connection has for its first message: who connects and says nothing holds a socket. */
  firstMessageMs: number;
  /** Milliseconds between a member's heartbeats; its worker sends them, so a hidden tab keeps the pace. */
  heartbeatMs: number;
  /** Milliseconds of silence after which a member is gone: six heartbeats, longer than a Wi-Fi handover. */
  silentMs: number;
  /** Messages a second a connection may send for long. */
  messagesPerSecond: number;
  /** Messages a connection may send at once: ICE candidates come in bursts, for two neighbours and retries. */
  messageBurst: number;
  /** Bytes waiting for a slow reader before it is cut off: no honest tab is a thousand messages behind. */
  maxUnsentBytes: number;
  /** Wrong codes a minute from one address (of IPv6, one /64). A class shares one address: right codes do not count. */
  wrongCodesPerMinute: number;
  /** WebSockets from one address (of IPv6, one /64): four full rooms in one school. */
  socketsPerAddress: number;
  /** New WebSockets a second from one address for long: tabs that reload and return, not a program. */
  connectionsPerSecond: number;
  /** New WebSockets from one address at once: as many as it may have, when the server has been away. */
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
  newsPerSecond: number;
  /** Digests at once: a run that ends does not wait for its second. */
  newsBurst: number;
  /** Milliseconds a room that a tab made outlasts its last member: one who reloads the page finds it again. */
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
  socketsPerAddress: 256,
  connectionsPerSecond: 10,
  connectionBurst: 256,
  roomsPerMinute: 20,
  roomBurst: 64,
  maxRooms: 1000,
  roomCapacity: MAX_WORLD_SIZE,
  spectatorCapacity: MAX_SPECTATORS,
  newsPerSecond: 1.5,
  newsBurst: 4,
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

/** Counts failures per address, minute by minute. */
export class FailureCounter {
  readonly #clock: Clock;
  readonly #perMinute: number;
  /** In the order in which their minutes began. */
  readonly #byAddress = new Map<string, { count: number; until: number }>();

  constructor(clock: Clock, perMinute: number) {
    this.#clock = clock;
    this.#perMinute = perMinute;
  }

  add(address: string): void {
    const now = this.#clock.now();
    const entry = this.#byAddress.get(address);
    if (entry !== undefined && entry.until > now) {
      entry.count += 1;
      return;
    }
    // Its minute begins anew: to the end of the order.
    this.#byAddress.delete(address);
    const [oldest] = this.#byAddress.keys();
    if (oldest !== undefined && this.#byAddress.size >= MAX_ADDRESSES) this.#byAddress.delete(oldest);
    this.#byAddress.set(address, { count: 1, until: now + MINUTE_MS });
  }

  /** Whether this address has failed too often in the last minute. */
  isBlocked(address: string): boolean {
    const entry = this.#byAddress.get(address);
    return entry !== undefined && entry.until > this.#clock.now() && entry.count >= this.#perMinute;
  }
}
