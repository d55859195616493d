/**
 * Connects two ranks: one connection attempt after the other until a deadline, each with its own id so that signals of a dead
 * attempt are ignored. Between ring neighbours, who both know that they are to connect, the member with the lower id initiates;
 * any other link is initiated by the rank that wants to send. Where both want at once, the lower id's attempt counts.
 */
import type { IceServer, PeerSignal } from '../protocol/control.ts';
import { handshake, type Hello } from '../transport/handshake.ts';
import type { Link } from '../transport/link.ts';
import type { PeerAttempt, PeerConnectOptions } from '../transport/peerLink.ts';
import type { Clock } from '../util/clock.ts';
import { deferred } from '../util/deferred.ts';
import { messageOf, PeerGoneError, TimeoutError } from '../util/errors.ts';

/** All of linking: a second less than the server's own deadline, so that the sentence that knows why is the one told. */
export const LINKING_TIMEOUT_MS = 14_000;
/** One attempt: long enough for slow Wi-Fi (ICE takes 1-2 s there), short enough for a second attempt. */
const ATTEMPT_TIMEOUT_MS = 6_000;
/** Wait before the initiator's attempt k+1: 250 ms * 2^k. */
const BACKOFF_MS = 250;

/** Makes connection attempts; on the main thread simple-peer itself, in a worker a stand-in for it. */
export type PeerConnector = (options: PeerConnectOptions) => PeerAttempt;

export interface EdgeOptions {
  self: Hello;
  peer: Hello;
  iceServers: readonly IceServer[];
  connect: PeerConnector;
  send: (attempt: number, signal: PeerSignal) => void;
  clock: Clock;
}

/** This rank's connection to another, while it is made. */
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
    // An offer may have come before.
    this.#isInitiator = initiates && this.#attempt === null;
    // The two ends number their attempts apart: even ones are the lower id's.
    if (this.#isInitiator) this.#start(this.#isLower ? 0 : 1);
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

  /** A signal from the other end. */
  signal(attempt: number, signal: PeerSignal): void {
    if (this.#isOver) return;
    const isTheirs = (attempt % 2 === 0) !== this.#isLower;
    if (signal.type === 'offer' && isTheirs) {
      // Both want: the lower id's attempt counts, and the other end follows.
      if (this.#isInitiator && !this.#isLower) this.#yield();
      if (!this.#isInitiator && attempt > this.#lastAttemptId) this.#start(attempt);
    }
    if (this.#attempt?.id === attempt) this.#attempt.peer.signal(signal);
  }

  /** Gives up linking, or closes the link. */
  close(): void {
    this.#linked.reject(new PeerGoneError('Linking was cancelled.'));
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
    const { connect, iceServers, send } = this.#options;
    this.#attempt?.peer.abort();
    this.#lastAttemptId = id;
    const peer = connect({ initiator: this.#isInitiator, iceServers, onsignal: (signal) => send(id, signal) });
    this.#attempt = { id, peer };
    void this.#await(id, peer);
  }

  async #await(id: number, peer: PeerAttempt): Promise<void> {
    const { clock, self, peer: expected } = this.#options;
    const cancel = clock.after(ATTEMPT_TIMEOUT_MS, () => peer.abort());
    try {
      const link = await peer.link;
      await handshake(link, self, expected, { timeoutMs: ATTEMPT_TIMEOUT_MS, clock });
      if (this.#isOver) link.close();
      else this.#linked.resolve(link);
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
