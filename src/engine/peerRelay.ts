/**
 * Peer connections for a worker: RTCPeerConnection exists on a page's main thread only, so the worker asks the page to
 * connect, signals pass between the two, and the open link comes over as a MessagePort.
 */
import type { PeerSignal } from '../protocol/control.ts';
import { bridgeLink, createPortLink } from '../transport/portLink.ts';
import type { PeerAttempt, PeerConnectOptions } from '../transport/peerLink.ts';
import type { Link } from '../transport/link.ts';
import { deferred, type Deferred } from '../util/deferred.ts';
import { messageOf, PeerGoneError } from '../util/errors.ts';
import type { PeerConnector } from './linking.ts';

/** What the worker asks of the page. `id` names an attempt. */
export type RelayRequest =
  | ({ type: 'peer-connect'; id: number } & Omit<PeerConnectOptions, 'onsignal'>)
  | { type: 'peer-signal'; id: number; signal: PeerSignal }
  | { type: 'peer-abort'; id: number };

/** What the page answers. */
export type RelayReply =
  | { type: 'peer-signal'; id: number; signal: PeerSignal }
  | { type: 'peer-open'; id: number; port: MessagePort }
  | { type: 'peer-failed'; id: number; message: string };

/** The worker's end: a {@link PeerConnector} whose connections live on the page. */
export function createRelayedConnector(post: (request: RelayRequest) => void): {
  connect: PeerConnector;
  receive: (reply: RelayReply) => void;
} {
  const attempts = new Map<number, { link: Deferred<Link>; onsignal: (signal: PeerSignal) => void }>();
  let lastId = 0;
  return {
    connect({ onsignal, ...options }): PeerAttempt {
      const id = ++lastId;
      const link = deferred<Link>();
      attempts.set(id, { link, onsignal });
      post({ type: 'peer-connect', id, ...options });
      return {
        link: link.promise,
        signal: (signal) => post({ type: 'peer-signal', id, signal }),
        abort: () => post({ type: 'peer-abort', id }),
      };
    },
    receive(reply) {
      const attempt = attempts.get(reply.id);
      if (!attempt) return;
      switch (reply.type) {
        case 'peer-signal':
          return attempt.onsignal(reply.signal);
        case 'peer-open':
          attempts.delete(reply.id);
          return attempt.link.resolve(createPortLink(reply.port));
        case 'peer-failed':
          attempts.delete(reply.id);
          return attempt.link.reject(new PeerGoneError(reply.message));
        default:
          reply satisfies never;
      }
    },
  };
}

/** The page's end: makes the connections that the worker asks for. */
export class PeerHost {
  readonly #connect: PeerConnector;
  readonly #reply: (reply: RelayReply, transfer: Transferable[]) => void;
  readonly #attempts = new Map<number, PeerAttempt>();

  constructor(connect: PeerConnector, reply: (reply: RelayReply, transfer: Transferable[]) => void) {
    this.#connect = connect;
    this.#reply = reply;
  }

  receive(request: RelayRequest): void {
    const { id } = request;
    switch (request.type) {
      case 'peer-connect': {
        const { initiator, iceServers, iceTransportPolicy } = request;
        const onsignal = (signal: PeerSignal): void => this.#reply({ type: 'peer-signal', id, signal }, []);
        try {
          const attempt = this.#connect({ initiator, iceServers, iceTransportPolicy, onsignal });
          this.#attempts.set(id, attempt);
          void this.#handOver(id, attempt);
        } catch (error) {
          // Extensions and policies switch WebRTC off.
          const message = `This browser makes no connections to others (${messageOf(error)}).`;
          this.#reply({ type: 'peer-failed', id, message }, []);
        }
        return;
      }
      case 'peer-signal':
        return this.#attempts.get(id)?.signal(request.signal);
      case 'peer-abort':
        return this.#attempts.get(id)?.abort();
      default:
        request satisfies never;
    }
  }

  /** Destroys every connection, so that neighbours know within milliseconds and not by a timeout. */
  close(): void {
    for (const attempt of this.#attempts.values()) attempt.abort();
    this.#attempts.clear();
  }

  async #handOver(id: number, attempt: PeerAttempt): Promise<void> {
    try {
      const link = await attempt.link;
      const { port1, port2 } = new MessageChannel();
      bridgeLink(link, port1, () => this.#attempts.delete(id));
      this.#reply({ type: 'peer-open', id, port: port2 }, [port2]);
    } catch (error) {
      this.#attempts.delete(id);
      this.#reply({ type: 'peer-failed', id, message: messageOf(error) }, []);
    }
  }
}
