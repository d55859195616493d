/**
 * Connects two ranks for a generation, either over their connection of an earlier generation, or by
 * new attempts until a deadline. Each attempt has an id, so that signals of an earlier attempt can
 * be ignored.
 *
 * Ring neighbours both know that they have to connect, and the member with the lower id initiates.
 * Any other link is initiated by the rank that sends first. If both send at the same time, the
 * attempt of the member with the lower id is used.
 *
 * Tabs of one browser may be linked by a MessagePort (`transport: auto`). Then only their first
 * attempt uses a port. Later attempts use WebRTC.
 */
import type { IceServer } from '../../protocol/control.ts';
import type { LinkSignal } from '../../protocol/linkSignal.ts';
import { handshake, type Hello } from '../../transport/handshake.ts';
import type { Link } from '../../transport/link.ts';
import type { PeerAttempt, PeerConnectOptions } from '../../transport/peerLink.ts';
import { SharedLink } from '../../transport/sharedLink.ts';
import type { TabConnectOptions } from '../../transport/tabLink.ts';
import type { Clock } from '../../util/clock.ts';
import { debugLog } from '../../util/debugLog.ts';
import { deferred } from '../../util/deferred.ts';
import { messageOf, PeerGoneError, TimeoutError } from '../../util/errors.ts';
import { randomId } from './browserId.ts';
import type { LinkPool } from './linkPool.ts';

/**
 * Deadline in milliseconds for opening a link, including all attempts. It is one second shorter
 * than the server's own deadline, because only the rank's error names the link that failed.
 */
export const LINKING_TIMEOUT_MS = 14_000;
/**
 * A link that is opened on demand may take this many times {@link LINKING_TIMEOUT_MS}. Only an op
 * waits for such a link, and the op has its own deadline. On a busy machine, the first attempts may
 * all be too slow.
 */
export const ON_DEMAND_TIMES = 4;
/**
 * Deadline in milliseconds for one attempt. It is long enough for slow Wi-Fi, on which ICE takes
 * 1-2 s, and short enough for a second attempt. From the third attempt on, each has twice the time
 * of the one before.
 */
const ATTEMPT_TIMEOUT_MS = 6_000;
/**
 * Deadline in milliseconds for an attempt with a port. The browser may have to start a process for
 * the SharedWorker that hands out ports (`transport/brokerWorker.ts`), which takes 1-2 s if all
 * cores are busy.
 */
const PORT_TIMEOUT_MS = 3_000;
/** After attempt k (counted from 0) has failed, the initiator waits 250 ms * 2^k. */
const BACKOFF_MS = 250;
/**
 * Deadline in milliseconds for the handshake over an open connection. The handshake takes one round
 * trip, unless the connection is dead.
 */
const REUSE_TIMEOUT_MS = 3_000;

const log = debugLog('links');

/**
 * Starts connection attempts. On the main thread this is simple-peer, in a worker a proxy for it.
 */
export type PeerConnector = (options: PeerConnectOptions) => PeerAttempt;
/** Starts attempts to connect to another tab of this browser. */
export type TabConnector = (options: TabConnectOptions) => PeerAttempt;

interface GenerationLinkOptions {
  self: Hello;
  peer: Hello;
  iceServers: readonly IceServer[];
  connect: PeerConnector;
  /** `null` if the two members are in different browsers, or must not be linked by a port. */
  connectTab: TabConnector | null;
  /** The connections of earlier generations. New connections are added to the pool. */
  pool: LinkPool;
  /**
   * Whether to connect over a TURN relay only, because the server requires it or a direct
   * connection has failed. An existing direct connection is closed.
   */
  relayOnly: boolean;
  send: (attempt: number, signal: LinkSignal) => void;
  /** Resolves with `true` if one of the two ends computes or loads, and therefore cannot answer. */
  isDelayed: () => Promise<boolean>;
  clock: Clock;
}

/**
 * This rank's link to another rank in one generation, from the first attempt until it is closed.
 */
export class GenerationLink {
  readonly #options: GenerationLinkOptions;
  readonly #isLower: boolean;
  /** Whether this end starts attempts. If not, it answers the attempts of the other end. */
  #isInitiator = false;
  /** Whether this end's next attempt uses a port. */
  #asksForPort: boolean;
  readonly #linked = deferred<Link>();
  #attempt: { id: number; peer: PeerAttempt } | null = null;
  #lastAttemptId = -1;
  #lastFailure = 'No connection was opened.';
  #isOver = false;
  /**
   * Whether {@link link} was called. If so, and if the handshake over an earlier connection fails,
   * new attempts follow.
   */
  #isWanted = false;
  /** The link over the connection of an earlier generation, while its handshake is in progress. */
  #reused: Link | null = null;
  #reusing: Promise<boolean> | null = null;
  /** The link; `null` until it is open. */
  #opened: Link | null = null;

  constructor(options: GenerationLinkOptions) {
    this.#options = options;
    this.#isLower = options.self.member < options.peer.member;
    this.#asksForPort = options.connectTab !== null;
    // Prevents an unhandled rejection if `close` is called before `link`.
    this.#linked.promise.catch(() => {});
  }

  /**
   * Resolves with the link once both ends have identified each other. May be called while {@link
   * reuse} or an earlier call is pending.
   *
   * @param initiates whether this end starts attempts. If not, it waits for attempts of the other
   *   end.
   * @param times limit of the linking time, as a multiple of LINKING_TIMEOUT_MS. Time in which an
   *   end is delayed does not count.
   * @throws (rejects) TimeoutError after that time. Its message contains the failure of the last
   *   attempt.
   */
  async link(initiates = this.#isLower, times = 1): Promise<Link> {
    this.#isWanted = true;
    log(() => `${this.#name} ${initiates ? 'is opened' : 'waits for attempts of the other end'}.`);
    const watch = new AbortController();
    this.#expireAfter(times * LINKING_TIMEOUT_MS, watch.signal);
    if (this.#attempt === null && !(await this.#reuse())) {
      // This end starts no second attempt: during the handshake, an offer may have arrived, or
      // another call may have started an attempt.
      if (initiates && this.#attempt === null && !this.#isOver) {
        this.#isInitiator = true;
        // Each end has its own attempt numbers: even for the member with the lower id, odd for the
        // other.
        this.#open(this.#isLower ? 0 : 1);
      }
    }
    try {
      this.#opened = await this.#linked.promise;
      if (log.isOn()) void this.#logRoute(this.#opened);
      return this.#opened;
    } catch (error) {
      this.#attempt?.peer.abort();
      throw error;
    } finally {
      this.#isOver = true;
      watch.abort();
    }
  }

  /** The two ends, for the debug log. */
  get #name(): string {
    const { self, peer } = this.#options;
    return `Link of rank ${self.rank} to rank ${peer.rank} (${peer.member}), generation ${self.generation},`;
  }

  async #logRoute(link: Link): Promise<void> {
    const { route, roundTripMs } = await link.describe();
    log(() => `${this.#name} is open; route ${route}, round trip ${roundTripMs ?? 'unknown'} ms.`);
  }

  /**
   * Ends linking after `ms`. If an end is delayed at that moment, the link gets more time instead.
   */
  #expireAfter(ms: number, signal: AbortSignal): void {
    const { clock, isDelayed } = this.#options;
    const expire = async (): Promise<void> => {
      const late = this.#tooLate(ms);
      const isExcused = await isDelayed();
      if (signal.aborted) return;
      log(() => `${late.message}${isExcused ? ' An end computes or loads, so the link waits longer.' : ''}`);
      if (isExcused) this.#expireAfter(LINKING_TIMEOUT_MS, signal);
      else this.#linked.reject(late);
    };
    const cancel = clock.after(ms, () => void expire());
    signal.addEventListener('abort', cancel, { once: true });
  }

  #tooLate(ms: number): TimeoutError {
    const { self, peer } = this.#options;
    return new TimeoutError(
      `Rank ${self.rank} could not connect to rank ${peer.rank} within ${ms / 1000} s: ${this.#lastFailure} ` +
        'If the two are in different networks, the server needs a TURN relay (--turn).',
      { generation: self.generation, rank: self.rank, missing: [peer.rank] },
    );
  }

  /** Whether a connection of an earlier generation to this member exists. */
  get canReuse(): boolean {
    return this.#options.pool.get(this.#options.peer.member) !== null;
  }

  /** Whether linking has failed. To link to the same rank again, create another link. */
  get hasFailed(): boolean {
    return this.#isOver && this.#opened === null;
  }

  /**
   * Resolves with a link over the connection of an earlier generation. If that connection is dead,
   * but one end has started an attempt, resolves with the link of that attempt, as {@link link}
   * does.
   *
   * @throws (rejects) PeerGoneError if the connection is dead and neither end has started an
   *   attempt; TimeoutError as {@link link} does.
   */
  async reuse(): Promise<Link> {
    if (await this.#reuse()) {
      this.#opened = await this.#linked.promise;
      if (log.isOn()) void this.#logRoute(this.#opened);
      this.#isOver = true;
      return this.#opened;
    }
    if (this.#isWanted || this.#attempt !== null) return this.link(false);
    this.#isOver = true;
    throw new PeerGoneError('The connection of the previous generation is closed.');
  }

  #reuse(): Promise<boolean> {
    this.#reusing ??= this.#greetAgain();
    return this.#reusing;
  }

  async #greetAgain(): Promise<boolean> {
    const { pool, self, peer, clock, relayOnly } = this.#options;
    if (relayOnly) pool.dropDirect(peer.member);
    const shared = pool.get(peer.member);
    if (!shared) return false;
    const link = shared.view(self.generation);
    this.#reused = link;
    try {
      await handshake(link, self, peer, { timeoutMs: REUSE_TIMEOUT_MS, clock });
      this.#linked.resolve(link);
      return true;
    } catch (error) {
      this.#lastFailure = messageOf(error);
      log(() => `${this.#name} cannot use the connection of an earlier generation: ${this.#lastFailure}`);
      // If the handshake was cancelled, the connection may still be usable, so it stays in the
      // pool.
      if (!this.#isOver && pool.get(peer.member) === shared) pool.drop(peer.member);
      return false;
    } finally {
      this.#reused = null;
    }
  }

  /** Handles a signal from the other end. */
  signal(attempt: number, signal: LinkSignal): void {
    if (this.#isOver) return;
    const isTheirs = (attempt % 2 === 0) !== this.#isLower;
    if ((signal.type === 'offer' || signal.type === 'port') && isTheirs) {
      // The signal shows that the other end has lost the connection of the earlier generation.
      this.#reused?.close();
      // If both ends initiate, the attempt of the member with the lower id is used. The other end
      // answers it.
      if (this.#isInitiator && !this.#isLower) this.#yield();
      if (!this.#isInitiator && attempt > this.#lastAttemptId) {
        this.#follow(attempt, signal.type === 'port' ? signal.key : null);
      }
    }
    if (signal.type !== 'port' && this.#attempt?.id === attempt) this.#attempt.peer.signal(signal);
  }

  /** Cancels linking, or closes the link. The connection stays open in the pool. */
  close(): void {
    this.#isOver = true;
    this.#linked.reject(new PeerGoneError('Linking was cancelled.'));
    this.#reused?.close();
    if (!this.#opened) return;
    this.#opened.onclose = null;
    this.#opened.close();
  }

  #yield(): void {
    this.#isInitiator = false;
    this.#attempt?.peer.abort();
    this.#attempt = null;
    this.#lastAttemptId = -1;
  }

  /** Starts an attempt of this end. */
  #open(id: number): void {
    const { connectTab, send } = this.#options;
    if (connectTab === null || !this.#asksForPort) return this.#start(id, this.#connect(id));
    this.#asksForPort = false;
    const key = randomId();
    this.#start(id, connectTab({ initiator: true, key }), PORT_TIMEOUT_MS);
    send(id, { type: 'port', key });
  }

  /** Answers an attempt of the other end. If there is a key, the attempt uses a port. */
  #follow(id: number, key: string | null): void {
    const { connectTab } = this.#options;
    if (key === null) this.#start(id, this.#connect(id));
    else if (connectTab !== null) this.#start(id, connectTab({ initiator: false, key }), PORT_TIMEOUT_MS);
  }

  #connect(id: number): PeerAttempt {
    const { connect, iceServers, relayOnly, send } = this.#options;
    const iceTransportPolicy = relayOnly ? 'relay' : 'all';
    const onsignal = (signal: LinkSignal): void => send(id, signal);
    return connect({ initiator: this.#isInitiator, iceServers, iceTransportPolicy, onsignal });
  }

  #start(id: number, peer: PeerAttempt, timeoutMs = attemptMs(id)): void {
    this.#attempt?.peer.abort();
    this.#lastAttemptId = id;
    this.#attempt = { id, peer };
    log(() => {
      const role = this.#isInitiator ? 'begins' : 'answers';
      return `${this.#name} ${role} attempt ${id}, ${timeoutMs} ms${this.#options.relayOnly ? ', by a relay only' : ''}.`;
    });
    void this.#await(id, peer, timeoutMs);
  }

  async #await(id: number, peer: PeerAttempt, timeoutMs: number): Promise<void> {
    const { clock, self, peer: expected, pool, relayOnly } = this.#options;
    const cancel = clock.after(timeoutMs, () => peer.abort());
    try {
      const shared = new SharedLink(await peer.link);
      const link = shared.view(self.generation);
      try {
        await handshake(link, self, expected, { timeoutMs, clock });
      } catch (error) {
        shared.close();
        throw error;
      }
      if (this.#isOver) return shared.close();
      pool.put(expected.member, shared, relayOnly);
      this.#linked.resolve(link);
    } catch (error) {
      peer.abort();
      this.#lastFailure = messageOf(error);
      const retries = this.#isInitiator && !this.#isOver && this.#attempt?.id === id;
      log(() => `${this.#name} attempt ${id} failed${retries ? ', and is repeated' : ''}: ${this.#lastFailure}`);
      if (retries) {
        clock.after(BACKOFF_MS * 2 ** Math.floor(id / 2), () => {
          if (!this.#isOver && this.#isInitiator) this.#open(id + 2);
        });
      }
    } finally {
      cancel();
    }
  }
}

function attemptMs(id: number): number {
  return ATTEMPT_TIMEOUT_MS * 2 ** Math.max(0, Math.floor(id / 2) - 1);
}
