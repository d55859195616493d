/**
 * Connections by simple-peer: the only file that knows it. Main thread only, as RTCPeerConnection
 * is.
 *
 * simple-peer makes a channel of its own and keeps its events: by it the two ends know that they
 * are connected, and that the other is gone. Frames have another channel, which may move to a
 * worker.
 */
import type Peer from 'simple-peer';
// The plain entry needs Node's globals; this build brings its own.
import PeerConstructor from 'simple-peer/simplepeer.min.js';
import type { IceServer, PeerSignal } from '../protocol/control.ts';
import { ProtocolError } from '../util/errors.ts';
import { openChannelLink, type Connection } from './channelLink.ts';
import { UNKNOWN_WAY, type Link, type LinkDescription } from './link.ts';

/**
 * The stream of the channel for frames, on both ends: simple-peer's own channel gets 0 or 1,
 * whichever end it comes from (https://www.rfc-editor.org/rfc/rfc8832#section-6), and browsers
 * differ in how many there may be.
 */
const FRAMES_STREAM = 2;

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
  /**
   * Resolves with the open link. Rejects with PeerGoneError where the connection fails or is
   * aborted.
   */
  readonly link: Promise<Link>;
  abort(): void;
}

/**
 * A connection under way. It has no deadline of its own: whoever closes it knows how long linking
 * may take.
 */
export interface PeerConnection extends Connection {
  /**
   * For frames. In the task that made it, and no later, it may be transferred to a worker, where
   * the browser can do so.
   */
  readonly channel: RTCDataChannel;
  signal(signal: PeerSignal): void;
}

/** Starts to connect. @throws where the browser makes no connections. */
export function openPeerConnection({ initiator, onsignal, ...options }: PeerConnectOptions): PeerConnection {
  const native = new RTCPeerConnection({
    iceTransportPolicy: options.iceTransportPolicy ?? 'all',
    iceServers: options.iceServers.map(({ urls, username, credential }) => ({
      urls,
      ...(username === undefined ? {} : { username }),
      ...(credential === undefined ? {} : { credential }),
    })),
  });
  const peer = new PeerConstructor({
    initiator,
    // simple-peer's way to be given an implementation of WebRTC: it is to manage this connection,
    // and makes one.
    wrtc: {
      RTCPeerConnection: new Proxy(RTCPeerConnection, { construct: () => native }),
      RTCSessionDescription,
      RTCIceCandidate,
    },
  });
  const connection: PeerConnection = {
    channel: native.createDataChannel('frames', { negotiated: true, id: FRAMES_STREAM }),
    onclose: null,
    signal(signal) {
      if (!peer.destroyed) peer.signal(signal as Peer.SignalData);
    },
    describe: () => describe(native),
    close: () => void peer.destroy(),
  };
  peer.on('signal', (signal: Peer.SignalData) => {
    // simple-peer also emits signals for media, which we never use and the protocol does not carry.
    if (signal.type === 'offer' || signal.type === 'answer') onsignal({ type: signal.type, sdp: signal.sdp ?? '' });
    else if (signal.type === 'candidate') {
      const { candidate, sdpMid, sdpMLineIndex } = signal.candidate;
      onsignal({ type: 'candidate', candidate: { candidate, sdpMid, sdpMLineIndex } });
    }
  });
  // Whoever sends there is none of ours, and nobody would read it.
  peer.on('data', () => peer.destroy(new ProtocolError('The other side sent data where no frames belong.')));
  let failure: Error | null = null;
  peer.on('error', (error: Error) => (failure = error));
  // Always comes, behind the error if there is one.
  peer.on('close', () => connection.onclose?.(failure));
  return connection;
}

/**
 * Starts one attempt to link, with frames on this thread. @throws where the browser makes no
 * connections.
 */
export function connectPeer(options: PeerConnectOptions): PeerAttempt {
  const connection = openPeerConnection(options);
  return {
    link: openChannelLink(connection.channel, connection),
    signal: (signal) => connection.signal(signal),
    abort: () => connection.close(),
  };
}

async function describe(native: RTCPeerConnection): Promise<LinkDescription> {
  const stats = await native.getStats();
  let pair: RTCIceCandidatePairStats | null = null;
  stats.forEach((report: RTCStats) => {
    const candidatePair = report as RTCIceCandidatePairStats;
    if (report.type === 'candidate-pair' && candidatePair.nominated && candidatePair.state === 'succeeded') {
      pair = candidatePair;
    }
  });
  if (!pair) return UNKNOWN_WAY;
  const { localCandidateId, remoteCandidateId, currentRoundTripTime } = pair as RTCIceCandidatePairStats;
  const isRelay = (id: string) => (stats.get(id) as { candidateType?: string } | undefined)?.candidateType === 'relay';
  return {
    route: isRelay(localCandidateId) || isRelay(remoteCandidateId) ? 'relayed' : 'direct',
    roundTripMs: currentRoundTripTime === undefined ? null : currentRoundTripTime * 1000,
  };
}
