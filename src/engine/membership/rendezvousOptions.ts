/** The options and callbacks of a rendezvous. */
import type { NewcomerHooks } from '../../parallel/recovery/stateFeed.ts';
import type { ClientMessage, ServerMessage } from '../../protocol/control.ts';
import type { NoticeMessage } from '../../protocol/notices.ts';
import type { RankStatus } from '../../protocol/events.ts';
import type { TransportName } from '../../spec/job.ts';
import type { ThreadActivity } from '../../util/activity.ts';
import type { Clock } from '../../util/clock.ts';
import type { Generation } from './generation.ts';
import type { PeerAttempt } from '../../transport/peerLink.ts';
import type { ServerConnectOptions } from '../../transport/serverLink.ts';
import type { PeerConnector, TabConnector } from './generationLinkOptions.ts';
import type { RunEnd, RankStateReport } from './membership.ts';
import type { OpenSocket } from './signalingClient.ts';

/**
 * Messages to the server: the user's commands, and reports about this tab, its links and the run.
 */
export type ClientRequest = Extract<
  ClientMessage,
  {
    type:
      | 'configure'
      | 'start'
      | 'pause'
      | 'resume'
      | 'stop'
      | 'remove'
      | 'lock'
      | 'spectator-update'
      | 'slow'
      | 'receiving';
  }
>;

export interface RendezvousOptions {
  server: string;
  /** The first message to the server, without the browser's id. */
  hello: Extract<ClientMessage, { type: 'create' | 'join' }>;
  connectPeer: PeerConnector;
  connectTab: TabConnector;
  /** Connects ranks through the server. If it is missing, no ranks are linked that way. */
  connectServer?: (options: Omit<ServerConnectOptions, 'openSocket' | 'crypto'>) => PeerAttempt;
  /** How tabs of one browser are linked. The default is the job's transport. */
  transport?: TransportName;
  clock: Clock;
  /** This thread's activity, which its heartbeats report. */
  activity: ThreadActivity;
  /** Returns milliseconds since 1970. */
  today: () => number;
  /** Returns a random number from 0 (inclusive) to 1 (exclusive), like Math.random. */
  random: () => number;
  openSocket: OpenSocket;
  /** Resolves with the id that all tabs of this browser share. */
  browserId: () => Promise<string>;
  /** Called after each admission, including reconnects and admissions as a new member. */
  onadmitted: (message: Extract<ServerMessage, { type: 'admitted' }>) => void;
  /** Called when the server has sent a new host key. */
  onhostkey?: (room: string, hostKey: string) => void;
  onroom: (message: Extract<ServerMessage, { type: 'room' }>) => void;
  onstate: (status: RankStatus) => void;
  /** Called with rank 0's updates. Only spectators receive them. */
  onspectatorupdate?: (update: string) => void;
  /**
   * Called in SYNCING. Resolves with this rank's state once it is equal to the state of the other
   * ranks. Calls do not overlap.
   */
  enter: (generation: Generation) => Promise<RankStateReport>;
  /** Called in RUNNING. Resolves with the state after the final step. */
  train: (generation: Generation) => Promise<RankStateReport>;
  /**
   * Called with a group of two, in which rank 0 gives the run's state to rank 1, a newcomer. The
   * call must end when the feed's signal is aborted. A newcomer's feed ends before the newcomer
   * enters a generation. On a newcomer, the call reports its progress to the hooks.
   */
  feed?: (feed: Generation, hooks: NewcomerHooks) => Promise<void>;
  /**
   * Returns what a rejection of `enter` or `train` means for the other ranks. Not called for a
   * PeerGoneError or a TimeoutError, because those only end the generation.
   */
  scopeOf: (error: unknown) => Extract<ClientMessage, { type: 'failed' }>['scope'];
  /** Called with a note about the run. */
  onnote?: (note: NoticeMessage) => void;
  /**
   * Called when this member is left out for a while, and the other ranks continue. The text
   * says why.
   */
  onsuspended?: (why: NoticeMessage) => void;
  /**
   * Called when a run has ended. The member stays in the room. If the outcome is `finished`, a
   * member that has no result has lost its place in the room during the run.
   */
  onended: (ended: RunEnd) => void;
  /** Called when the server has refused a command. Nothing has changed. */
  onrefused: (error: Error) => void;
  /**
   * Called when the member is no longer in the room, because the server refused it or cannot be
   * reached.
   */
  onfatal: (error: Error) => void;
}
