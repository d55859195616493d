/**
 * Opens links through the signaling server, for tabs that cannot connect by WebRTC. It works on any
 * thread that has WebSockets.
 */
import { PROTOCOL_VERSION } from '../protocol/control.ts';
import type { LinkSignal, ServerLinkSignal } from '../protocol/linkSignal.ts';
import { SERVER_LINK_PATH, type ServerLinkOpening } from '../protocol/serverLink.ts';
import { createDeferred } from '../util/deferred.ts';
import { PeerGoneError, errorReasonOf } from '../util/errors.ts';
import { hexOf } from '../util/hex.ts';
import { socketUrl } from '../util/socketUrl.ts';
import { openChannelLink, type WebRtcConnections } from './channelLink.ts';
import { SERVER_LINK_WINDOW } from './frameOrder.ts';
import type { Link } from './link.ts';
import type { PeerAttempt } from './peerLink.ts';
import { createLinkKeys, deriveFrameSeals, type FrameSeals } from './sealing.ts';
import { ServerLinkChannel, type LinkSocket } from './serverLinkChannel.ts';

/** 128 random bits do not collide in practice and cannot be guessed. */
const CHANNEL_BYTES = 16;

/** The parts of `globalThis.crypto` that links use. An insecure page has no `subtle`. */
export interface LinkCrypto extends Pick<Crypto, 'getRandomValues'> {
  readonly subtle?: SubtleCrypto | undefined;
}

export interface ServerConnectOptions extends Omit<ServerLinkOpening, 'version' | 'channel'> {
  /** Exactly one side is the initiator. */
  initiator: boolean;
  /** URL of the signaling server (`https://host:port`). */
  server: string;
  /** Opens a WebSocket to `url`. */
  openSocket: (url: URL) => LinkSocket;
  crypto: LinkCrypto;
  /** Called once, with the signal that the caller must pass to `signal` on the other side. */
  onsignal: (signal: ServerLinkSignal) => void;
}

/**
 * Starts one attempt to link through the server. The attempt has no deadline of its own. The
 * initiator sends the first signal. The other side answers that signal, and connects to the server
 * only then.
 */
export function connectThroughServer(options: ServerConnectOptions): PeerAttempt {
  return new ServerAttempt(options);
}

class ServerAttempt implements PeerAttempt {
  readonly #options: ServerConnectOptions;
  readonly #link = createDeferred<Link>();
  /** Id of the link; `null` until this end knows it. */
  #id: string | null = null;
  readonly #othersKey = createDeferred<string | null>();
  #channel: ServerLinkChannel | null = null;
  #isAborted = false;

  constructor(options: ServerConnectOptions) {
    this.#options = options;
    if (options.initiator) this.#begin(hexOf(options.crypto.getRandomValues(new Uint8Array(CHANNEL_BYTES))));
  }

  get link(): Promise<Link> {
    return this.#link.promise;
  }

  signal(signal: LinkSignal): void {
    if (signal.type !== 'server' || this.#isAborted) return;
    if (this.#id === null) this.#begin(signal.channel);
    if (signal.channel === this.#id) this.#othersKey.resolve(signal.key);
  }

  abort(): void {
    this.#isAborted = true;
    this.#link.reject(new PeerGoneError('Linking was cancelled.'));
    this.#channel?.close();
  }

  #begin(id: string): void {
    this.#id = id;
    const { server, openSocket, room, member, token, generation, peer } = this.#options;
    const url = socketUrl(SERVER_LINK_PATH, server);
    let socket: LinkSocket;
    try {
      socket = openSocket(url);
    } catch (error) {
      const why = `This page cannot open a WebSocket to ${url.host}: ${errorReasonOf(error)}.`;
      return this.#link.reject(new PeerGoneError(why));
    }
    const channel = new ServerLinkChannel({
      socket,
      opening: { version: PROTOCOL_VERSION, room, member, token, generation, peer, channel: id },
      seals: this.#agree(id),
      onend: (error) => connection.onclose?.(error),
    });
    const connection: WebRtcConnections = {
      onclose: null,
      onchannel: null,
      answers: (ms) => channel.answers(ms),
      describe: () => Promise.resolve(channel.describe()),
      close: () => channel.close(),
    };
    this.#channel = channel;
    openChannelLink(channel, connection, SERVER_LINK_WINDOW).then(this.#link.resolve, this.#link.reject);
  }

  /** Exchanges keys with the other end. Resolves with `null` if one of the two cannot encrypt. */
  async #agree(id: string): Promise<FrameSeals | null> {
    const { crypto, initiator, onsignal } = this.#options;
    const { subtle } = crypto;
    const keys = await (subtle === undefined ? null : createLinkKeys(subtle));
    if (!this.#isAborted) onsignal({ type: 'server', channel: id, key: keys?.publicKey ?? null });
    const othersKey = await this.#othersKey.promise;
    if (subtle === undefined || keys === null || othersKey === null) return null;
    return deriveFrameSeals(subtle, keys, othersKey, id, initiator);
  }
}
