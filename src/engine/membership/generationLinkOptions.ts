/** The options of a generation's link: how its ends connect, and with what. */
import type { IceServer } from '../../protocol/control.ts';
import type { LinkSignal } from '../../protocol/linkSignal.ts';
import type { HelloMessage } from '../../transport/handshake.ts';
import type { PeerAttempt, PeerConnectOptions } from '../../transport/peerLink.ts';
import type { ServerConnectOptions } from '../../transport/serverLink.ts';
import type { TabConnectOptions } from '../../transport/tabLink.ts';
import type { Clock } from '../../util/clock.ts';
import type { LinkPool } from './linkPool.ts';

/**
 * Starts connection attempts. On the main thread this is simple-peer, in a worker a proxy for it.
 */
export type PeerConnector = (options: PeerConnectOptions) => PeerAttempt;
/** Starts attempts to connect to another tab of this browser. */
export type TabConnector = (options: TabConnectOptions) => PeerAttempt;

/**
 * Starts attempts to connect through the signaling server. On the other side, the attempt begins
 * with the initiator's signal.
 */
export type ServerConnector = (
  options: Omit<ServerConnectOptions, 'server' | 'room' | 'token' | 'openSocket' | 'crypto'>,
) => PeerAttempt;

export interface GenerationLinkOptions {
  self: HelloMessage;
  peer: HelloMessage;
  iceServers: readonly IceServer[];
  /** `null` if the server forwards all frames between browsers, so WebRTC is not tried. */
  connect: PeerConnector | null;
  /** `null` if the two members are in different browsers, or must not be linked by a port. */
  connectTab: TabConnector | null;
  /** `null` if the server forwards no frames. */
  connectServer: ServerConnector | null;
  /** The connections of earlier generations. New connections are added to the pool. */
  pool: LinkPool;
  /**
   * Whether to connect over a TURN relay only, because the server requires it or a direct
   * connection has failed. An existing direct connection is closed.
   */
  relayOnly: boolean;
  /**
   * Whether attempts through the server begin after `DIRECT_HEAD_START_MS`, because a direct
   * connection has already failed.
   */
  isServed: boolean;
  /**
   * Whether the run ends if the link breaks. If so, the server, which may stop, is not tried before
   * a direct attempt has failed, and does not replace a direct connection that has stalled.
   */
  isFixed: boolean;
  send: (attempt: number, signal: LinkSignal) => void;
  /** Resolves with `true` if one of the two ends computes or loads, and therefore cannot answer. */
  isDelayed: () => Promise<boolean>;
  clock: Clock;
}
