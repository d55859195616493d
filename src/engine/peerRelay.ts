/**
 * Connections for a worker: RTCPeerConnection and SharedWorker exist on a page's main thread only, so the worker asks the page to
 * connect, signals pass between the two, and a MessagePort comes over: to the page, which has the open link, or to another tab.
 */
import type { PeerSignal } from '../protocol/control.ts';
import type { AskForPort } from '../transport/broker.ts';
import { bridgeLink, createPortLink } from '../transport/portLink.ts';
import type { PeerAttempt, PeerConnectOptions } from '../transport/peerLink.ts';
import { deferred, type Deferred } from '../util/deferred.ts';
import { messageOf, PeerGoneError } from '../util/errors.ts';
import type { PeerConnector } from './linking.ts';

/** What the worker asks of the page. `id` names an attempt. */
export type RelayRequest =
  | ({ type: 'peer-connect'; id: number } & Omit<PeerConnectOptions, 'onsignal'>)
  | { type: 'peer-signal'; id: number; signal: PeerSignal }
  | { type: 'peer-port'; id: number; key: string }
  | { type: 'peer-abort'; id: number };

/** What the page answers. */
export type RelayReply =
  | { type: 'peer-signal'; id: number; signal: PeerSignal }
  | { type: 'peer-open'; id: number; port: MessagePort }
  | { type: 'peer-failed'; id: number; message: string };

/** The worker's end: a {@link PeerConnector} whose connections live on the page, and the page's way to other tabs. */
export function createRelayedConnector(post: (request: RelayRequest) => void): {
  connect: PeerConnector;
  askForPort: AskForPort;
  receive: (reply: RelayReply) => void;
} {
  const attempts = new Map<number, { port: Deferred<MessagePort>; onsignal: (signal: PeerSignal) => void }>();
  let lastId = 0;
  return {
    connect({ onsignal, ...options }): PeerAttempt {
      const id = ++lastId;
      const port = deferred<MessagePort>();
      attempts.set(id, { port, onsignal });
      post({ type: 'peer-connect', id, ...options });
      return {
        link: port.promise.then(createPortLink),
        signal: (signal) => post({ type: 'peer-signal', id, signal }),
        abort: () => post({ type: 'peer-abort', id }),
      };
    },
    askForPort(key) {
      const id = ++lastId;
      const port = deferred<MessagePort>();
      attempts.set(id, { port, onsignal: () => {} });
      post({ type: 'peer-port', id, key });
      return { port: port.promise, cancel: () => post({ type: 'peer-abort', id }) };
    },
    receive(reply) {
      const attempt = attempts.get(reply.id);
      if (!attempt) return;
      switch (reply.type) {
        case 'peer-signal':
          return attempt.onsignal(reply.signal);
        case 'peer-open':
          attempts.delete(reply.id);
          return attempt.port.resolve(reply.port);
        case 'peer-failed':
          attempts.delete(reply.id);
          return attempt.port.reject(new PeerGoneError(reply.message));
        default:
          reply satisfies never;
      }
    },
  };
}

/** The page's end: makes the connections that the worker asks for. */
export class PeerHost {
  readonly #connect: PeerConnector;
  readonly #askForPort: AskForPort;
  readonly #reply: (reply: RelayReply, transfer: Transferable[]) => void;
  readonly #attempts = new Map<number, Pick<PeerAttempt, 'signal' | 'abort'>>();

  constructor(connect: PeerConnector, ask: AskForPort, reply: (reply: RelayReply, transfer: Transferable[]) => void) {
    this.#connect = connect;
    this.#askForPort = ask;
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
          void this.#handOver(id, this.#bridge(id, attempt));
        } catch (error) {
          // Extensions and policies switch WebRTC off.
          const message = `This browser makes no connections to others (${messageOf(error)}).`;
          this.#reply({ type: 'peer-failed', id, message }, []);
        }
        return;
      }
      case 'peer-signal':
        return this.#attempts.get(id)?.signal(request.signal);
      case 'peer-port': {
        const { port, cancel } = this.#askForPort(request.key);
        this.#attempts.set(id, { signal: () => {}, abort: cancel });
        void this.#handOver(id, port);
        return;
      }
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

  /** Resolves with the worker's end of the link, once it is open. */
  async #bridge(id: number, attempt: PeerAttempt): Promise<MessagePort> {
    const link = await attempt.link;
    const { port1, port2 } = new MessageChannel();
    bridgeLink(link, port1, () => this.#attempts.delete(id));
    return port2;
  }

  async #handOver(id: number, opening: Promise<MessagePort>): Promise<void> {
    try {
      const port = await opening;
      this.#reply({ type: 'peer-open', id, port }, [port]);
    } catch (error) {
      this.#attempts.delete(id);
      this.#reply({ type: 'peer-failed', id, message: messageOf(error) }, []);
    }
  }
}
