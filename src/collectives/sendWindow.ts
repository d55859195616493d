/**
 * Flow control of one op, similar to the eager and rendezvous protocols of MPI. The first
 * EAGER_BYTES to a rank may be sent before that rank has called the op. They are unexpected
 * messages on that rank. All other bytes wait for that rank's READY.
 */
import type { PlanOp } from './planOp.ts';

/**
 * Number of bytes that an op may send to a rank before that rank's READY, so that small ops never
 * wait for a round trip.
 */
export const EAGER_BYTES = 256 * 1024;

/** The send window towards one rank. */
interface SendWindow {
  isReady: boolean;
  eagerLeft: number;
  /** Sends the frame that waits for READY. */
  release: (() => void) | null;
}

/** The send windows of one op, by rank in the group. */
export class SendWindows {
  readonly #windows = new Map<number, SendWindow>();

  constructor(op: Pick<PlanOp, 'peers' | 'bytes'>) {
    for (const peer of op.peers) {
      const isReady = op.bytes('send', peer) <= EAGER_BYTES;
      this.#windows.set(peer, { isReady, eagerLeft: EAGER_BYTES, release: null });
    }
  }

  /**
   * Calls `transmit` at once if the peer is ready or the frame is within the eager bytes; otherwise
   * when the peer is ready.
   */
  send(peer: number, bytes: number, transmit: () => Promise<void>): Promise<void> {
    const window = this.#windows.get(peer)!;
    const mustWait = !window.isReady && window.eagerLeft < bytes;
    window.eagerLeft -= bytes;
    if (!mustWait) return transmit();
    return new Promise<void>((release) => (window.release = release)).then(transmit);
  }

  /** Opens the window, because `peer` is ready for all data of the op. */
  open(peer: number): void {
    const window = this.#windows.get(peer);
    if (window) window.isReady = true;
    window?.release?.();
  }

  /** Returns a rank whose READY this rank waits for; `undefined` if there is no such rank. */
  blockedPeer(): number | undefined {
    return [...this.#windows].find(([, { release, isReady }]) => release !== null && !isReady)?.[0];
  }
}
