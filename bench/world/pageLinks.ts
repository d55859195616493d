/** simple-peer links on the page. `bench link` compares them with links in the worker. */
import type { Link } from '../../src/transport/link.ts';
import { connectPeer, type PeerAttempt } from '../../src/transport/peerLink.ts';
import type { PageLinkSignal } from './signals.ts';

export class PageLinks {
  readonly #rank: number;
  readonly #sendSignal: (to: number, signal: PageLinkSignal) => void;
  readonly #attempts = new Map<number, PeerAttempt>();

  constructor(rank: number, sendSignal: (to: number, signal: PageLinkSignal) => void) {
    this.#rank = rank;
    this.#sendSignal = sendSignal;
  }

  /**
   * Resolves with the link to `peer`, which is opened at the first call. The lower rank sends the
   * offer.
   */
  to(peer: number): Promise<Link> {
    return this.#attemptTo(peer).link;
  }

  receiveSignal(peer: number, { signal }: PageLinkSignal): void {
    this.#attemptTo(peer).signal(signal);
  }

  #attemptTo(peer: number): PeerAttempt {
    const existing = this.#attempts.get(peer);
    if (existing) return existing;
    const onsignal = (signal: PageLinkSignal['signal']): void => this.#sendSignal(peer, { for: 'page-link', signal });
    const attempt = connectPeer({ initiator: this.#rank < peer, iceServers: [], onsignal });
    this.#attempts.set(peer, attempt);
    return attempt;
  }
}
