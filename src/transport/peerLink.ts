/**
 * Opens WebRTC connections with simple-peer. No other file uses simple-peer. This code runs on the
 * main thread only, like RTCPeerConnection.
 *
 * simple-peer opens a channel of its own, by which it detects that the two ends are connected, or
 * that the other end is gone. The signals of extra connections use this channel. Frames use a
 * second channel, which may move to a worker.
 */
import type Peer from 'simple-peer';
// The default entry needs Node's globals; this build includes them.
import PeerConstructor from 'simple-peer/simplepeer.min.js';
import type { IceServer } from '../protocol/control.ts';
import { isPeerSignal, type LinkSignal, type PeerSignal } from '../protocol/linkSignal.ts';
import { systemClock } from '../util/clock.ts';
import { asError } from '../util/errors.ts';
import { openChannelLink, type WebRtcConnections } from './channelLink.ts';
import { ExtraConnections } from './extraConnections.ts';
import { UNKNOWN_LINK_DESCRIPTION, type Link, type RouteDescription } from './link.ts';

/**
 * The stream id of the channel for frames, on both ends. simple-peer's own channel has 0 or 1,
 * depending on which end creates it (https://www.rfc-editor.org/rfc/rfc8832#section-6). A low id
 * works everywhere, because browsers differ only in the largest id.
 */
const FRAMES_STREAM = 2;
/**
 * Largest number of extra connections of all links of the page. Chromium allows 500 connections;
 * a closed connection counts until its memory is collected. In a world of 256 ranks, a rank may
 * need 255 links, so over a hundred connections remain for repeated attempts. Links to ring
 * neighbours are opened first, so they get extra connections first.
 */
const MAX_EXTRA = 128;
/**
 * Milliseconds from the moment at which ICE notices that answers are missing, 5-8 s after the last
 * answer, to the report of a stall. A connection whose packets were only late recovers within this
 * time.
 */
const STALL_MS = 500;
/** Number of extra connections that the page has now. */
let extraNow = 0;

export interface PeerConnectOptions {
  /** Exactly one side is the initiator; by convention the one with the lower member id. */
  initiator: boolean;
  iceServers: readonly IceServer[];
  /** `relay` allows connections through a TURN server only. Default `all`. */
  iceTransportPolicy?: RTCIceTransportPolicy | undefined;
  /**
   * Number of connections, 1 to 4. Default (`null`): 1, or 4 to a peer that is far away. Only the
   * initiator's value counts.
   */
  connections?: number | null;
  /** Called with each signal that the caller must pass to `signal` on the other side. */
  onsignal: (signal: PeerSignal) => void;
}

/** One attempt to connect. After a failed attempt, the caller discards it and makes a new one. */
export interface PeerAttempt {
  /**
   * Passes in a signal from the other side. Ignores late and redundant signals, and signals of
   * other kinds of attempts.
   */
  signal(signal: LinkSignal): void;
  /**
   * Resolves with the open link. Rejects with PeerGoneError if the connection fails or is aborted.
   */
  readonly link: Promise<Link>;
  abort(): void;
}

/** A connection that is being established. It has no deadline of its own; the caller closes it. */
export interface PeerConnection extends WebRtcConnections {
  /**
   * The channel for frames. If the browser supports it, the channel may be transferred to a worker,
   * but only in the task that created the channel.
   */
  readonly channel: RTCDataChannel;
  signal(signal: PeerSignal): void;
}

/**
 * Starts to connect. If the peer is far away, extra connections follow.
 *
 * @throws if the browser does not support connections.
 */
export function openPeerConnection(options: PeerConnectOptions): PeerConnection {
  const { initiator, connections = null } = options;
  let stalled = 0;
  const onstall = (isStalled: boolean): void => {
    stalled += isStalled ? 1 : -1;
    connection.onstall?.(stalled > 0);
  };
  const { peer, connection } = openOne(options, onstall);
  const extra = new ExtraConnections({
    initiator,
    connections,
    now: () => systemClock.now(),
    iceRoundTripMs: async () => (await connection.describe()).roundTripMs,
    send: (text) => {
      if (peer.connected) peer.send(text);
    },
    open: (onfurthersignal) => {
      if (extraNow >= MAX_EXTRA) return null;
      const opened = openOne({ ...options, onsignal: onfurthersignal }, onstall);
      extraNow += 1;
      opened.connection.onclose = (error) => {
        extraNow -= 1;
        // Frames may have been sent over this connection, so the link ends. If a connection fails
        // before its channel can be open, the link continues without that connection.
        if (opened.wasConnected()) peer.destroy(error ?? undefined);
      };
      connection.onchannel?.(opened.connection.channel);
      return opened.connection;
    },
  });
  peer.on('connect', () => extra.start());
  peer.on('data', (data: unknown) => {
    try {
      extra.receive(String(data));
    } catch (error) {
      peer.destroy(asError(error));
    }
  });
  peer.on('close', () => extra.close());
  return connection;
}

/**
 * Starts one connection.
 *
 * @param onstall called with `true` when the connection stalls, with `false` when it works again.
 */
function openOne(
  { initiator, onsignal, ...options }: Omit<PeerConnectOptions, 'connections'>,
  onstall: (isStalled: boolean) => void,
): {
  peer: Peer.Instance;
  connection: PeerConnection;
  /** Whether the two ends have been connected, so that channels may have been open. */
  wasConnected: () => boolean;
} {
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
    // With this option, simple-peer delivers each message separately, as text.
    objectMode: true,
    // simple-peer accepts an implementation of WebRTC. This implementation returns `native` when
    // simple-peer creates a connection.
    wrtc: {
      RTCPeerConnection: new Proxy(RTCPeerConnection, { construct: () => native }),
      RTCSessionDescription,
      RTCIceCandidate,
    },
  });
  peer.on('signal', (signal: Peer.SignalData) => {
    // simple-peer also emits signals for media. They are not used and not part of the protocol.
    if (signal.type === 'offer' || signal.type === 'answer') onsignal({ type: signal.type, sdp: signal.sdp ?? '' });
    else if (signal.type === 'candidate') {
      const { candidate, sdpMid, sdpMLineIndex } = signal.candidate;
      onsignal({ type: 'candidate', candidate: { candidate, sdpMid, sdpMLineIndex } });
    }
  });
  const connection: PeerConnection = {
    channel: native.createDataChannel('frames', { negotiated: true, id: FRAMES_STREAM }),
    onclose: null,
    onchannel: null,
    signal(signal) {
      if (!peer.destroyed) peer.signal(signal as Peer.SignalData);
    },
    describe: () => describe(native),
    close: () => void peer.destroy(),
  };
  let wasConnected = false;
  native.addEventListener('connectionstatechange', () => (wasConnected ||= native.connectionState === 'connected'));
  let isStalled = false;
  let cancelStall: (() => void) | null = null;
  const setStalled = (is: boolean): void => {
    if (isStalled === is) return;
    isStalled = is;
    onstall(is);
  };
  peer.on('iceStateChange', (state: RTCIceConnectionState) => {
    cancelStall?.();
    if (state === 'disconnected') cancelStall = systemClock.after(STALL_MS, () => setStalled(true));
    else if (state === 'connected' || state === 'completed') setStalled(false);
  });
  let failure: Error | null = null;
  peer.on('error', (error: Error) => (failure = error));
  // simple-peer always emits `close`. If there is an error, `error` comes first.
  peer.on('close', () => {
    cancelStall?.();
    connection.onclose?.(failure);
  });
  return { peer, connection, wasConnected: () => wasConnected };
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
    signal(signal) {
      if (isPeerSignal(signal)) connection.signal(signal);
    },
    abort: () => connection.close(),
  };
}

async function describe(native: RTCPeerConnection): Promise<RouteDescription> {
  const stats = await native.getStats();
  const pair = selectedPair(stats);
  if (!pair) return UNKNOWN_LINK_DESCRIPTION;
  const { localCandidateId, remoteCandidateId, currentRoundTripTime } = pair;
  const isRelay = (id: string) => (stats.get(id) as { candidateType?: string } | undefined)?.candidateType === 'relay';
  return {
    route: isRelay(localCandidateId) || isRelay(remoteCandidateId) ? 'relayed' : 'direct',
    roundTripMs: currentRoundTripTime === undefined ? null : currentRoundTripTime * 1000,
  };
}

/**
 * Returns the candidate pair that the connection uses. In Chromium, the end that does not nominate
 * the pair uses it for a moment before the nomination. Other browsers may report only the nominated
 * pair, not the pair in use.
 */
function selectedPair(stats: RTCStatsReport): RTCIceCandidatePairStats | undefined {
  const reports = [...stats.values()] as RTCStats[];
  const selected = reports
    .filter((report) => report.type === 'transport')
    .map((report) => (report as RTCTransportStats).selectedCandidatePairId)
    .find((id) => id !== undefined);
  if (selected !== undefined) return stats.get(selected) as RTCIceCandidatePairStats | undefined;
  return (reports as RTCIceCandidatePairStats[]).find(
    ({ type, nominated, state }) => type === 'candidate-pair' && nominated === true && state === 'succeeded',
  );
}
