/**
 * Attempts of one kind to connect two ranks, one after the other. Each attempt has an id, so that
 * signals of an earlier attempt can be ignored. Each end has its own ids: even for the member with
 * the lower id, odd for the other.
 */
import type { LinkSignal } from '../../protocol/linkSignal.ts';
import type { Link } from '../../transport/link.ts';
import type { PeerAttempt } from '../../transport/peerLink.ts';
import type { LinkAcrossGenerations } from '../../transport/linkAcrossGenerations.ts';

/**
 * Deadline in milliseconds for one attempt. It is long enough for slow Wi-Fi, on which ICE takes
 * 1-2 s, and short enough for a second attempt. From the third attempt on, each has twice the time
 * of the one before.
 */
const ATTEMPT_TIMEOUT_MS = 6_000;
/** After attempt k (counted from 0) has failed, the initiator waits 250 ms * 2^k. */
const BACKOFF_MS = 250;

/** An open connection, and the view of it for one generation. */
export interface OpenedConnection {
  readonly shared: LinkAcrossGenerations;
  readonly view: Link;
}

export interface LinkAttempt {
  readonly id: number;
  readonly peer: PeerAttempt;
  readonly usesPort: boolean;
  /** `null` until the connection is open. */
  opened: OpenedConnection | null;
  isCancelled: boolean;
}

export class LinkAttemptTrack {
  /** `direct`: WebRTC or a port. `server`: through the signaling server. */
  readonly kind: 'direct' | 'server';
  /** Why the latest attempt has failed. */
  failure: string | null = null;
  #latest: LinkAttempt | null = null;
  #lastId = -1;

  constructor(kind: LinkAttemptTrack['kind']) {
    this.kind = kind;
  }

  /** The latest attempt, even if it has failed; `null` before the first, and after {@link stop}. */
  get latest(): LinkAttempt | null {
    return this.#latest;
  }

  /** @param isLower whether the member that starts the attempt has the lower id. */
  nextId(isLower: boolean): number {
    if (this.#lastId >= 0) return this.#lastId + 2;
    return isLower ? 0 : 1;
  }

  /** Whether an attempt with this id would be the latest. */
  isNew(id: number): boolean {
    return id > this.#lastId;
  }

  /** Makes an attempt the latest one, and cancels the previous one. */
  start(id: number, peer: PeerAttempt, usesPort = false): LinkAttempt {
    if (this.#latest !== null) cancelLinkAttempt(this.#latest);
    this.#lastId = id;
    this.#latest = { id, peer, usesPort, opened: null, isCancelled: false };
    return this.#latest;
  }

  /** Cancels the latest attempt. It is not repeated. */
  stop(): void {
    if (this.#latest !== null) cancelLinkAttempt(this.#latest);
    this.#latest = null;
  }

  /** Cancels the latest attempt, and restarts the ids. */
  reset(): void {
    this.stop();
    this.#lastId = -1;
  }

  /** Passes a signal to the latest attempt. Returns `false` if it belongs to another attempt. */
  signal(id: number, signal: LinkSignal): boolean {
    const attempt = this.#latest;
    if (attempt === null || attempt.id !== id || attempt.isCancelled) return false;
    attempt.peer.signal(signal);
    return true;
  }
}

/** Ends an attempt, and closes its connection if it is open. */
export function cancelLinkAttempt(attempt: LinkAttempt): void {
  attempt.isCancelled = true;
  attempt.peer.abort();
  attempt.opened?.shared.close();
}

/** Whether a signal can be the first one of an attempt that `from` has started. */
export function beginsLinkAttempt(
  id: number,
  { type }: LinkSignal,
  { from, to }: { from: string; to: string },
): boolean {
  const isOfLower = id % 2 === 0;
  return isOfLower === from < to && (type === 'offer' || type === 'port' || type === 'server');
}

/** Deadline in milliseconds for an attempt, unless it uses a port. */
export function linkAttemptTimeoutMs(id: number): number {
  return ATTEMPT_TIMEOUT_MS * 2 ** Math.max(0, Math.floor(id / 2) - 1);
}

/** Milliseconds between the failure of an attempt and the next one. */
export function linkAttemptBackoffMs(id: number): number {
  return BACKOFF_MS * 2 ** Math.floor(id / 2);
}
