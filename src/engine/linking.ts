/**
 * Connects two ranks for an epoch: over the connection that they have from the epoch before, or by one attempt after the other
 * until a deadline, each with its own id so that signals of a dead attempt are ignored. Between ring neighbours, who both know that they are to connect, the member with the lower id initiates;
 * any other link is initiated by the rank that wants to send. Where both want at once, the lower id's attempt counts.
 */
import type { IceServer, PeerSignal } from '../protocol/control.ts';
import { handshake, type Hello } from '../transport/handshake.ts';
import type { Link } from '../transport/link.ts';
import type { PeerAttempt, PeerConnectOptions } from '../transport/peerLink.ts';
import { SharedLink } from '../transport/sharedLink.ts';
import type { Clock } from '../util/clock.ts';
import { deferred } from '../util/deferred.ts';
import { messageOf, PeerGoneError, TimeoutError } from '../util/errors.ts';
import type { LinkPool } from './linkPool.ts';

/** All of linking: a second less than the server's own deadline, so that the sentence that knows why is the one told. */
export const LINKING_TIMEOUT_MS = 14_000;
/** One attempt: long enough for slow Wi-Fi (ICE takes 1-2 s there), short enough for a second attempt. */
const ATTEMPT_TIMEOUT_MS = 6_000;
/** Wait before the initiator's attempt k+1: 250 ms * 2^k. */
const BACKOFF_MS = 250;
/** How long the other end may take to greet over a connection that stood: a round trip, or it stands no more. */
const REUSE_TIMEOUT_MS = 3_000;

/** Makes connection attempts; on the main thread simple-peer itself, in a worker a stand-in for it. */
export type PeerConnector = (options: PeerConnectOptions) => PeerAttempt;

export interface EdgeOptions {
  self: Hello;
  peer: Hello;
  iceServers: readonly IceServer[];
  connect: PeerConnector;
  /** Connections of earlier epochs, and where new ones go. */
  pool: LinkPool;
  /** All other ways have failed: a new connection, over a TURN relay. */
  relayOnly: boolean;
  send: (attempt: number, signal: PeerSignal) => void;
  clock: Clock;
}

/** This rank's link to another in one epoch, while it is made. */
export class Edge {
  readonly #options: EdgeOptions;
  readonly #isLower: boolean;
  /** Whether this end opens attempts; the other end then follows its offers. */
  #isInitiator = false;
  readonly #linked = deferred<Link>();
  #attempt: { id: number; peer: PeerAttempt } | null = null;
  #lastAttemptId = -1;
  #lastFailure = 'No connection came about.';
  #isOver = false;
  /** Greeting over the connection of an earlier epoch. */
  #reused: Link | null = null;
  #reusing: Promise<boolean> | null = null;
  /** The link, once there is one. */
  #opened: Link | null = null;

  constructor(options: EdgeOptions) {
    this.#options = options;
    this.#isLower = options.self.member < options.peer.member;
    // Awaited by `link`; `abort` may come first.
    this.#linked.promise.catch(() => {});
  }

  /**
   * Resolves with the link once both ends agreed on who they are.
   *
   * @param initiates whether this end opens attempts, or waits for the other's.
   * @throws (rejects) TimeoutError after LINKING_TIMEOUT_MS, with the last attempt's failure.
   */
  async link(initiates = this.#isLower): Promise<Link> {
    const { clock, self, peer } = this.#options;
    const cancel = clock.after(LINKING_TIMEOUT_MS, () =>
      this.#linked.reject(
        new TimeoutError(
          `Rank ${self.rank} could not connect to rank ${peer.rank} within ${LINKING_TIMEOUT_MS / 1000} s: ${this.#lastFailure} ` +
            'If the two are in different networks, the server needs a TURN relay (--turn).',
          { epoch: self.epoch, rank: self.rank, missing: [peer.rank] },
        ),
      ),
    );
    if (this.#attempt === null && !(await this.#reuse())) {
      // An offer may have come meanwhile.
      this.#isInitiator = initiates && this.#attempt === null;
      // The two ends number their attempts apart: even ones are the lower id's.
      if (this.#isInitiator && !this.#isOver) this.#start(this.#isLower ? 0 : 1);
    }
    try {
      this.#opened = await this.#linked.promise;
      return this.#opened;
    } catch (error) {
      this.#attempt?.peer.abort();
      throw error;
    } finally {
      this.#isOver = true;
      cancel();
    }
  }

  /** Whether there is a connection of an earlier epoch to this member. */
  get canReuse(): boolean {
    return this.#options.pool.get(this.#options.peer.member) !== null;
  }

  /**
   * Links over the connection of an earlier epoch, if it still stands.
   *
   * @throws (rejects) PeerGoneError where it does not.
   */
  async reuse(): Promise<Link> {
    if (await this.#reuse()) this.#opened = await this.#linked.promise;
    this.#isOver = true;
    if (this.#opened) return this.#opened;
    throw new PeerGoneError('The connection of the epoch before is gone.');
  }

  #reuse(): Promise<boolean> {
    this.#reusing ??= this.#greetAgain();
    return this.#reusing;
  }

  async #greetAgain(): Promise<boolean> {
    const { pool, self, peer, clock, relayOnly } = this.#options;
    if (relayOnly) pool.drop(peer.member);
    const shared = pool.get(peer.member);
    if (!shared) return false;
    const link = shared.view(self.epoch);
    this.#reused = link;
    try {
      await handshake(link, self, peer, { timeoutMs: REUSE_TIMEOUT_MS, clock });
      this.#linked.resolve(link);
      return true;
    } catch (error) {
      this.#lastFailure = messageOf(error);
      // One that was cancelled says nothing of the connection.
      if (!this.#isOver && pool.get(peer.member) === shared) pool.drop(peer.member);
      return false;
    } finally {
      this.#reused = null;
    }
  }

  /** A signal from the other end. */
  signal(attempt: number, signal: PeerSignal): void {
    if (this.#isOver) return;
    const isTheirs = (attempt % 2 === 0) !== this.#isLower;
    // The other end has no connection any more.
    if (signal.type === 'offer' && isTheirs) this.#reused?.close();
    if (signal.type === 'offer' && isTheirs) {
      // Both want: the lower id's attempt counts, and the other end follows.
      if (this.#isInitiator && !this.#isLower) this.#yield();
      if (!this.#isInitiator && attempt > this.#lastAttemptId) this.#start(attempt);
    }
    if (this.#attempt?.id === attempt) this.#attempt.peer.signal(signal);
  }

  /** Gives up linking, or lets go of the link: the connection stays with the pool. */
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

  #start(id: number): void {
    const { connect, iceServers, relayOnly, send } = this.#options;
    this.#attempt?.peer.abort();
    this.#lastAttemptId = id;
    const onsignal = (signal: PeerSignal): void => send(id, signal);
    const iceTransportPolicy = relayOnly ? 'relay' : 'all';
    const peer = connect({ initiator: this.#isInitiator, iceServers, iceTransportPolicy, onsignal });
    this.#attempt = { id, peer };
    void this.#await(id, peer);
  }

  async #await(id: number, peer: PeerAttempt): Promise<void> {
    const { clock, self, peer: expected, pool } = this.#options;
    const cancel = clock.after(ATTEMPT_TIMEOUT_MS, () => peer.abort());
    try {
      const shared = new SharedLink(await peer.link);
      const link = shared.view(self.epoch);
      try {
        await handshake(link, self, expected, { timeoutMs: ATTEMPT_TIMEOUT_MS, clock });
      } catch (error) {
        shared.close();
        throw error;
      }
      if (this.#isOver) return shared.close();
      pool.put(expected.member, shared);
      this.#linked.resolve(link);
    } catch (error) {
      peer.abort();
      this.#lastFailure = messageOf(error);
      if (this.#isInitiator && !this.#isOver && this.#attempt?.id === id) {
        clock.after(BACKOFF_MS * 2 ** Math.floor(id / 2), () => {
          if (!this.#isOver && this.#isInitiator) this.#start(id + 2);
        });
      }
    } finally {
      cancel();
    }
  }
}
