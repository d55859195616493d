/**
 * Opens WebRTC connections with simple-peer. No other file uses simple-peer. This code runs on the
 * main thread only, like RTCPeerConnection.
 *
 * simple-peer opens a channel of its own, by which it detects that the two ends are connected, or
 * that the other end is gone. Frames use a second channel, which may move to a worker.
 */
import type Peer from 'simple-peer';
// The default entry needs Node's globals; this build includes them.
import PeerConstructor from 'simple-peer/simplepeer.min.js';
import type { IceServer, PeerSignal } from '../protocol/control.ts';
import { ProtocolError } from '../util/errors.ts';
import { openChannelLink, type Connection } from './channelLink.ts';
import { UNKNOWN_WAY, type Link, type LinkDescription } from './link.ts';

/**
 * The stream id of the channel for frames, on both ends. simple-peer's own channel has 0 or 1,
 * depending on which end creates it (https://www.rfc-editor.org/rfc/rfc8832#section-6). A low id
 * works everywhere, because browsers differ only in the largest id.
 */
const FRAMES_STREAM = 2;

export interface PeerConnectOptions {
  /** Exactly one side is the initiator; by convention the one with the lower member id. */
  initiator: boolean;
  iceServers: readonly IceServer[];
  /** `relay` allows connections through a TURN server only. Default `all`. */
  iceTransportPolicy?: RTCIceTransportPolicy | undefined;
  /** Called with each signal that the caller must pass to `signal` on the other side. */
  onsignal: (signal: PeerSignal) => void;
}

/** One attempt to connect. After a failed attempt, the caller discards it and makes a new one. */
export interface PeerAttempt {
  /** Passes in a signal from the other side; late or redundant signals are ignored. */
  signal(signal: PeerSignal): void;
  /**
   * Resolves with the open link. Rejects with PeerGoneError if the connection fails or is aborted.
   */
  readonly link: Promise<Link>;
  abort(): void;
}

/** A connection that is being established. It has no deadline of its own; the caller closes it. */
export interface PeerConnection extends Connection {
  /**
   * The channel for frames. If the browser supports it, the channel may be transferred to a worker,
   * but only in the task that created the channel.
   */
  readonly channel: RTCDataChannel;
  signal(signal: PeerSignal): void;
}

/** Starts to connect. @throws if the browser does not support connections. */
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
    // simple-peer accepts an implementation of WebRTC. This implementation returns `native` when
    // simple-peer creates a connection.
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
    // simple-peer also emits signals for media. They are not used and not part of the protocol.
    if (signal.type === 'offer' || signal.type === 'answer') onsignal({ type: signal.type, sdp: signal.sdp ?? '' });
    else if (signal.type === 'candidate') {
      const { candidate, sdpMid, sdpMLineIndex } = signal.candidate;
      onsignal({ type: 'candidate', candidate: { candidate, sdpMid, sdpMLineIndex } });
    }
  });
  // Data on simple-peer's channel violates the protocol.
  peer.on('data', () => peer.destroy(new ProtocolError('The other side sent data outside of the frame channel.')));
  let failure: Error | null = null;
  peer.on('error', (error: Error) => (failure = error));
  // simple-peer always emits `close`. If there is an error, `error` comes first.
  peer.on('close', () => connection.onclose?.(failure));
  return connection;
}

/**
 * Starts one attempt to open a link whose frames stay on this thread.
 *
 * @throws if the browser does not support connections.
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
