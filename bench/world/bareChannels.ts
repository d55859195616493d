/** Data channels without simple-peer and frames. Benchmarks compare links with them. */
import { createDeferred, type Deferred } from '../../src/util/deferred.ts';

/** A signal between two pages that open a bare channel. */
export type PageSignal = { for: 'page' } & (
  | { description: RTCSessionDescriptionInit }
  | { candidate: RTCIceCandidateInit }
);

/** A channel that queues received messages until it has a handler. */
export class BareChannel {
  readonly channel: RTCDataChannel;
  readonly #arrived: ArrayBuffer[] = [];
  #onmessage: ((message: ArrayBuffer) => void) | null = null;

  constructor(channel: RTCDataChannel) {
    this.channel = channel;
    channel.binaryType = 'arraybuffer';
    channel.onmessage = ({ data }) => {
      if (this.#onmessage) this.#onmessage(data as ArrayBuffer);
      else this.#arrived.push(data as ArrayBuffer);
    };
  }

  set onmessage(handler: ((message: ArrayBuffer) => void) | null) {
    this.#onmessage = handler;
    while (this.#onmessage && this.#arrived.length > 0) this.#onmessage(this.#arrived.shift()!);
  }
}

interface Peer {
  readonly connection: RTCPeerConnection;
  readonly opened: Deferred<BareChannel>;
}

export class BareChannels {
  readonly #rank: number;
  readonly #sendSignal: (to: number, signal: PageSignal) => void;
  readonly #peers = new Map<number, Peer>();

  constructor(rank: number, sendSignal: (to: number, signal: PageSignal) => void) {
    this.#rank = rank;
    this.#sendSignal = sendSignal;
  }

  /**
   * Resolves with the channel to `peer`, which is opened at the first call. The lower rank sends
   * the offer.
   */
  async to(peer: number): Promise<BareChannel> {
    const isNew = !this.#peers.has(peer);
    const { connection, opened } = this.#peerOf(peer);
    if (isNew && this.#rank < peer) await this.#describe(peer, connection);
    return opened.promise;
  }

  /** Handles a signal of `peer`. Signals of one peer must arrive in order. */
  async receiveSignal(peer: number, signal: PageSignal): Promise<void> {
    const { connection } = this.#peerOf(peer);
    if ('candidate' in signal) return connection.addIceCandidate(signal.candidate);
    await connection.setRemoteDescription(signal.description);
    if (signal.description.type === 'offer') await this.#describe(peer, connection);
  }

  async #describe(peer: number, connection: RTCPeerConnection): Promise<void> {
    await connection.setLocalDescription();
    const { type, sdp } = connection.localDescription!;
    this.#sendSignal(peer, { for: 'page', description: { type, sdp } });
  }

  #peerOf(rank: number): Peer {
    const existing = this.#peers.get(rank);
    if (existing) return existing;
    const connection = new RTCPeerConnection();
    connection.onicecandidate = ({ candidate }) => {
      if (candidate) this.#sendSignal(rank, { for: 'page', candidate: candidate.toJSON() });
    };
    const opened = createDeferred<BareChannel>();
    const raw = connection.createDataChannel('bare', { negotiated: true, id: 0 });
    const channel = new BareChannel(raw);
    raw.onopen = () => opened.resolve(channel);
    const peer = { connection, opened };
    this.#peers.set(rank, peer);
    return peer;
  }
}
