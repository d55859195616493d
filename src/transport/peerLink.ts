/**
 * A link over a WebRTC data channel, by simple-peer: the only file that knows it. Main thread only, as
 * RTCPeerConnection is. docs/LIMITS.md lists the numbers; the reasons stand beside each constant.
 */
import type Peer from 'simple-peer';
// The plain entry needs Node's globals; this build brings its own.
import PeerConstructor from 'simple-peer/simplepeer.min.js';
import type { IceServer, PeerSignal } from '../protocol/control.ts';
import { PeerGoneError, ProtocolError } from '../util/errors.ts';
import { deferred } from '../util/deferred.ts';
import { BaseLink } from './baseLink.ts';
import type { Link, LinkDescription } from './link.ts';

/**
 * Bytes handed to the channel before frames wait in our queue instead. Chromium closes nothing but throws above 16 MiB;
 * 1 MiB keeps its SCTP window (at most ~1 MiB) full.
 */
const CHANNEL_HIGH_BYTES = 1024 * 1024;
/** Refill when the channel has drained to this: far enough from zero that the wire never idles. */
const CHANNEL_LOW_BYTES = 256 * 1024;

/** What simple-peer keeps to itself and has no public way to reach. */
interface PeerInternals {
  _channel: RTCDataChannel | null;
  _pc: RTCPeerConnection | null;
}

export interface PeerConnectOptions {
  /** Exactly one side is; by convention the one with the lower member id. */
  initiator: boolean;
  iceServers: readonly IceServer[];
  /** `relay`: through a TURN server only. Default `all`. */
  iceTransportPolicy?: RTCIceTransportPolicy | undefined;
  /** Called with what the other side's `signal` must be given. */
  onsignal: (signal: PeerSignal) => void;
}

/** One attempt to connect; a failed one is thrown away and another made. */
export interface PeerAttempt {
  /** Hands over what the other side signalled; late or superfluous signals are ignored. */
  signal(signal: PeerSignal): void;
  /** Resolves with the open link. Rejects with PeerGoneError where the connection fails or is aborted. */
  readonly link: Promise<Link>;
  abort(): void;
}

class PeerLink extends BaseLink {
  readonly #peer: Peer.Instance;
  readonly #channel: RTCDataChannel;
  readonly #connection: RTCPeerConnection;
  readonly #queue: ArrayBuffer[] = [];

  /** @param early what the channel has brought before. */
  constructor(peer: Peer.Instance, early: readonly unknown[]) {
    super();
    const { _channel: channel, _pc: connection } = peer as unknown as PeerInternals;
    if (!channel || !connection) throw new PeerGoneError('The connection closed while it was opening.');
    this.#peer = peer;
    this.#channel = channel;
    this.#connection = connection;
    // simple-peer owns the channel's other `on...` properties and its threshold; ours is higher, to refill before it runs dry.
    channel.bufferedAmountLowThreshold = CHANNEL_LOW_BYTES;
    channel.addEventListener('bufferedamountlow', this.#drain);
    channel.onmessage = ({ data }: MessageEvent<unknown>) => this.#receive(data);
    for (const data of early) this.#receive(data);
    peer.on('close', () => this.closed(null));
    peer.on('error', (error: Error) => this.closed(error));
  }

  protected transmit(frame: ArrayBuffer): void {
    this.#queue.push(frame);
    this.#drain();
  }

  protected release(): void {
    this.#queue.length = 0;
    this.#channel.removeEventListener('bufferedamountlow', this.#drain);
    this.#peer.destroy();
  }

  async describe(): Promise<LinkDescription> {
    const unknown: LinkDescription = { route: 'unknown', roundTripMs: null };
    if (this.state === 'closed') return unknown;
    const stats = await this.#connection.getStats();
    let pair: RTCIceCandidatePairStats | null = null;
    stats.forEach((report: RTCStats) => {
      const candidatePair = report as RTCIceCandidatePairStats;
      if (report.type === 'candidate-pair' && candidatePair.nominated && candidatePair.state === 'succeeded') {
        pair = candidatePair;
      }
    });
    if (!pair) return unknown;
    const { localCandidateId, remoteCandidateId, currentRoundTripTime } = pair as RTCIceCandidatePairStats;
    const isRelay = (id: string) =>
      (stats.get(id) as { candidateType?: string } | undefined)?.candidateType === 'relay';
    return {
      route: isRelay(localCandidateId) || isRelay(remoteCandidateId) ? 'relayed' : 'direct',
      roundTripMs: currentRoundTripTime === undefined ? null : currentRoundTripTime * 1000,
    };
  }

  readonly #drain = (): void => {
    while (this.#queue.length > 0 && this.#channel.bufferedAmount < CHANNEL_HIGH_BYTES) {
      if (this.#channel.readyState !== 'open') return;
      const frame = this.#queue.shift()!;
      try {
        this.#channel.send(frame);
      } catch (error) {
        this.closed(error instanceof Error ? error : new PeerGoneError(String(error)));
        return;
      }
      this.left(frame.byteLength);
    }
  };

  #receive(data: unknown): void {
    if (data instanceof ArrayBuffer) this.arrived(data);
    else this.closed(new ProtocolError('The other side sent text where only frames belong.'));
  }
}

/**
 * Takes the messages of a peer's channel from simple-peer, from the first on: its stream sets a timer for each, and hands some on
 * only from there.
 */
function takeMessages(peer: Peer.Instance, onmessage: (data: unknown) => void): void {
  const { _channel, _pc } = peer as unknown as PeerInternals;
  const take = (channel: RTCDataChannel): void => {
    channel.onmessage = ({ data }: MessageEvent<unknown>) => onmessage(data);
  };
  // The initiator makes the channel at once. The other end gets it, and simple-peer listens first.
  if (_channel) take(_channel);
  else _pc?.addEventListener('datachannel', ({ channel }) => take(channel));
}

/**
 * Starts one connection attempt. It has no deadline of its own: the caller's `abort` is the deadline, as it alone knows
 * how long linking may take.
 */
export function connectPeer(options: PeerConnectOptions): PeerAttempt {
  const opened = deferred<Link>();
  const peer = new PeerConstructor({
    initiator: options.initiator,
    config: {
      iceTransportPolicy: options.iceTransportPolicy ?? 'all',
      iceServers: options.iceServers.map(({ urls, username, credential }) => ({
        urls,
        ...(username === undefined ? {} : { username }),
        ...(credential === undefined ? {} : { credential }),
      })),
    },
  });
  peer.on('signal', (signal: Peer.SignalData) => {
    // simple-peer also emits signals for media, which we never use and the protocol does not carry.
    if (signal.type === 'offer' || signal.type === 'answer')
      options.onsignal({ type: signal.type, sdp: signal.sdp ?? '' });
    else if (signal.type === 'candidate') {
      const { candidate, sdpMid, sdpMLineIndex } = signal.candidate;
      options.onsignal({ type: 'candidate', candidate: { candidate, sdpMid, sdpMLineIndex } });
    }
  });
  const early: unknown[] = [];
  takeMessages(peer, (data) => early.push(data));
  peer.once('connect', () => {
    try {
      opened.resolve(new PeerLink(peer, early));
    } catch (error) {
      opened.reject(error);
    }
  });
  // After `connect` these find the promise settled; PeerLink has listeners of its own.
  peer.on('error', (error: Error) => opened.reject(new PeerGoneError(`The connection failed: ${error.message}`)));
  peer.on('close', () => opened.reject(new PeerGoneError('The connection closed while it was opening.')));
  return {
    link: opened.promise,
    signal(signal) {
      if (!peer.destroyed) peer.signal(signal as Peer.SignalData);
    },
    abort() {
      peer.destroy();
    },
  };
}
