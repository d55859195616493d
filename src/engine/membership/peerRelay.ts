/**
 * Opens connections for a worker. RTCPeerConnection and SharedWorker exist on a page's main thread
 * only. So the worker requests a connection from the page, and signals are sent between worker and
 * page. For each connection the worker receives one of three objects. For a tab of the same
 * browser, it is a port to that tab. For other tabs, it is the connection's data channel, or, if
 * the browser cannot transfer data channels, a MessagePort to the page, which forwards the
 * channel's messages.
 */
import { isPeerSignal, type PeerSignal } from '../../protocol/linkSignal.ts';
import type { RequestTabPort } from '../../transport/broker.ts';
import { openChannelLink, type WebRtcConnections } from '../../transport/channelLink.ts';
import { UNKNOWN_LINK_DESCRIPTION, type Link, type RouteDescription } from '../../transport/link.ts';
import type { PeerAttempt, PeerConnection, PeerConnectOptions } from '../../transport/peerLink.ts';
import { bridgeLink, createPortLink } from '../../transport/portLink.ts';
import { createDeferred, type Deferred } from '../../util/deferred.ts';
import { errorMessageOf, PeerGoneError } from '../../util/errors.ts';
import type { PeerConnector } from './generationLinkOptions.ts';

/** The worker's requests to the page. `id` identifies an attempt. */
export type PeerRelayRequest =
  | ({ type: 'peer-connect'; id: number } & Omit<PeerConnectOptions, 'onsignal'>)
  | { type: 'peer-signal'; id: number; signal: PeerSignal }
  | { type: 'peer-port'; id: number; key: string }
  | { type: 'peer-describe'; id: number }
  | { type: 'peer-close'; id: number };

/** The page's replies. */
export type PeerRelayReply =
  | { type: 'peer-signal'; id: number; signal: PeerSignal }
  /**
   * The connection's data channel, before the connection is open. Later replies to this attempt are
   * signals, descriptions, stalls, the channels of extra connections, and `peer-gone` when the
   * connection is closed.
   */
  | { type: 'peer-channel'; id: number; channel: RTCDataChannel }
  /**
   * The port of a link. It is the last reply to this attempt, because everything else is sent over
   * the port.
   */
  | { type: 'peer-port'; id: number; port: MessagePort }
  | { type: 'peer-description'; id: number; description: RouteDescription }
  | { type: 'peer-stall'; id: number; isStalled: boolean }
  | { type: 'peer-gone'; id: number; message: string };

/**
 * Creates the worker's end: a {@link PeerConnector} whose connections exist on the page, and a
 * {@link TabConnector} that uses the page.
 */
export function createRelayedConnector(post: (request: PeerRelayRequest) => void): {
  connect: PeerConnector;
  requestTabPort: RequestTabPort;
  receive: (reply: PeerRelayReply) => void;
} {
  const listeners = new Map<number, (reply: PeerRelayReply) => void>();
  let lastId = 0;
  return {
    connect({ onsignal, ...options }): PeerAttempt {
      const id = ++lastId;
      const link = createDeferred<Link>();
      const describing: Deferred<RouteDescription>[] = [];
      let isOpening = false;
      let isGone = false;
      const connection: WebRtcConnections = {
        onclose: link.reject,
        onchannel: null,
        describe() {
          // After the connection is closed, the page's reply would not be received, so the page is
          // not asked.
          if (isGone) return Promise.resolve(UNKNOWN_LINK_DESCRIPTION);
          post({ type: 'peer-describe', id });
          const waiter = createDeferred<RouteDescription>();
          describing.push(waiter);
          return waiter.promise;
        },
        close: () => post({ type: 'peer-close', id }),
      };
      listeners.set(id, (reply) => {
        if (reply.type === 'peer-signal') onsignal(reply.signal);
        else if (reply.type === 'peer-channel') {
          if (isOpening) return connection.onchannel?.(reply.channel);
          isOpening = true;
          openChannelLink(reply.channel, connection).then(link.resolve, link.reject);
        } else if (reply.type === 'peer-port') link.resolve(createPortLink(reply.port));
        else if (reply.type === 'peer-description') describing.shift()?.resolve(reply.description);
        else if (reply.type === 'peer-stall') connection.onstall?.(reply.isStalled);
        else {
          isGone = true;
          for (const waiter of describing.splice(0)) waiter.resolve(UNKNOWN_LINK_DESCRIPTION);
          connection.onclose?.(new PeerGoneError(reply.message));
        }
      });
      post({ type: 'peer-connect', id, ...options });
      return {
        link: link.promise,
        signal(signal) {
          if (isPeerSignal(signal)) post({ type: 'peer-signal', id, signal });
        },
        abort: () => connection.close(),
      };
    },
    requestTabPort(key) {
      const id = ++lastId;
      const port = createDeferred<MessagePort>();
      listeners.set(id, (reply) => {
        if (reply.type === 'peer-port') port.resolve(reply.port);
        else if (reply.type === 'peer-gone') port.reject(new PeerGoneError(reply.message));
      });
      post({ type: 'peer-port', id, key });
      return { port: port.promise, cancel: () => post({ type: 'peer-close', id }) };
    },
    receive(reply) {
      const listener = listeners.get(reply.id);
      if (reply.type === 'peer-port' || reply.type === 'peer-gone') listeners.delete(reply.id);
      listener?.(reply);
    },
  };
}

/** The page's end: opens the connections that the worker requests. */
export class PeerRelayHost {
  readonly #openConnection: (options: PeerConnectOptions) => PeerConnection;
  readonly #requestTabPort: RequestTabPort;
  readonly #reply: (reply: PeerRelayReply, transfer: Transferable[]) => void;
  readonly #attempts = new Map<number, Pick<PeerConnection, 'signal' | 'describe' | 'close'>>();

  /** @param reply sends a message to the worker. Throws if an object cannot be transferred. */
  constructor(
    openConnection: (options: PeerConnectOptions) => PeerConnection,
    requestTabPort: RequestTabPort,
    reply: (reply: PeerRelayReply, transfer: Transferable[]) => void,
  ) {
    this.#openConnection = openConnection;
    this.#requestTabPort = requestTabPort;
    this.#reply = reply;
  }

  receive(request: PeerRelayRequest): void {
    const { id } = request;
    switch (request.type) {
      case 'peer-connect':
        return this.#connect(request);
      case 'peer-signal':
        return this.#attempts.get(id)?.signal(request.signal);
      case 'peer-port': {
        const { port, cancel } = this.#requestTabPort(request.key);
        this.#attempts.set(id, {
          signal: () => {},
          describe: () => Promise.resolve(UNKNOWN_LINK_DESCRIPTION),
          close: cancel,
        });
        void this.#handOver(id, port);
        return;
      }
      case 'peer-describe':
        void this.#describe(id);
        return;
      case 'peer-close':
        return this.#attempts.get(id)?.close();
      default:
        request satisfies never;
    }
  }

  /**
   * Closes every connection, so that neighbours notice it within milliseconds instead of after a
   * timeout.
   */
  close(): void {
    for (const attempt of this.#attempts.values()) attempt.close();
    this.#attempts.clear();
  }

  #connect({
    id,
    initiator,
    iceServers,
    iceTransportPolicy,
  }: Extract<PeerRelayRequest, { type: 'peer-connect' }>): void {
    const onsignal = (signal: PeerSignal): void => this.#reply({ type: 'peer-signal', id, signal }, []);
    let connection: PeerConnection;
    try {
      connection = this.#openConnection({ initiator, iceServers, iceTransportPolicy, onsignal });
    } catch (error) {
      // Browser extensions and policies can disable WebRTC.
      return this.#gone(id, `This browser cannot open WebRTC connections (${errorMessageOf(error)}).`);
    }
    this.#attempts.set(id, connection);
    const { channel } = connection;
    try {
      this.#reply({ type: 'peer-channel', id, channel }, [channel]);
      connection.onclose = (error) => this.#gone(id, error?.message ?? 'It was closed.');
      connection.onstall = (isStalled) => this.#reply({ type: 'peer-stall', id, isStalled }, []);
      connection.onchannel = (extra) => this.#reply({ type: 'peer-channel', id, channel: extra }, [extra]);
    } catch {
      // Some browsers cannot transfer channels. Then the channel stays on the page.
      void this.#handOver(id, this.#bridge(id, connection));
    }
  }

  /** Resolves with the worker's end of the link, once the link is open. */
  async #bridge(id: number, connection: PeerConnection): Promise<MessagePort> {
    const link = await openChannelLink(connection.channel, connection);
    const { port1, port2 } = new MessageChannel();
    bridgeLink(link, port1, () => this.#attempts.delete(id));
    return port2;
  }

  async #handOver(id: number, opening: Promise<MessagePort>): Promise<void> {
    try {
      const port = await opening;
      this.#reply({ type: 'peer-port', id, port }, [port]);
    } catch (error) {
      this.#gone(id, errorMessageOf(error));
    }
  }

  #gone(id: number, message: string): void {
    this.#attempts.delete(id);
    this.#reply({ type: 'peer-gone', id, message }, []);
  }

  async #describe(id: number): Promise<void> {
    const asked = this.#attempts.get(id)?.describe() ?? Promise.resolve(UNKNOWN_LINK_DESCRIPTION);
    // A connection that was closed in the meantime may have no statistics.
    const description = await asked.catch(() => UNKNOWN_LINK_DESCRIPTION);
    this.#reply({ type: 'peer-description', id, description }, []);
  }
}
