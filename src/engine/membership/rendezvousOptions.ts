/** The options and callbacks of a rendezvous. */
import type { ClientMessage, RunOutcome, ServerMessage } from '../../protocol/control.ts';
import type { RankStatus } from '../../protocol/events.ts';
import type { TransportName } from '../../spec/job.ts';
import type { Clock } from '../../util/clock.ts';
import type { Generation } from './generation.ts';
import type { PeerConnector, TabConnector } from './linkAttempt.ts';
import type { StateReport } from './membership.ts';
import type { OpenSocket } from './signalingClient.ts';

/** The user's commands, and reports about this tab, its links and the run. */
export type ClientRequest = Extract<
  ClientMessage,
  {
    type:
      | 'ready'
      | 'configure'
      | 'start'
      | 'pause'
      | 'resume'
      | 'stop'
      | 'remove'
      | 'lock'
      | 'spectator-update'
      | 'slow'
      | 'syncing';
  }
>;

export interface RendezvousOptions {
  server: string;
  /** The first message, without the browser's id. */
  hello: Extract<ClientMessage, { type: 'create' | 'join' }>;
  connectPeer: PeerConnector;
  connectTab: TabConnector;
  /** How tabs of one browser are linked (default: the job's transport). */
  transport?: TransportName;
  clock: Clock;
  /** Returns a number from 0 up to 1, as Math.random. */
  random: () => number;
  openSocket: OpenSocket;
  /** Resolves with the id that all tabs of this browser share. */
  browserId: () => Promise<string>;
  /**
   * Called after each admission: also after a reconnect, and if the server has admitted this tab as
   * a new member.
   */
  onadmitted: (message: Extract<ServerMessage, { type: 'admitted' }>) => void;
  /** Called with a renewed host key. */
  onhostkey?: (room: string, hostKey: string) => void;
  onroom: (message: Extract<ServerMessage, { type: 'room' }>) => void;
  onstate: (status: RankStatus) => void;
  /** Called with rank 0's updates. Only spectators receive them. */
  onspectatorupdate?: (update: string) => void;
  /**
   * SYNCING: resolves with this rank's state once it equals that of the other ranks. Calls do not
   * overlap.
   */
  enter: (generation: Generation) => Promise<StateReport>;
  /** RUNNING: resolves with the state after the last step. */
  train: (generation: Generation) => Promise<StateReport>;
  /**
   * Returns the consequence of a rejection of these two for the others. Not called if a rank that
   * has left is the cause.
   */
  scopeOf: (error: unknown) => Extract<ClientMessage, { type: 'failed' }>['scope'];
  /** Called with the reason why the others continue without this member for a while. */
  onsuspended?: (message: string) => void;
  /** Called when run `run` is over. The member is still in the room. */
  onended: (outcome: RunOutcome, message: string, run: number) => void;
  /** Called when the server has refused a command. Nothing has changed. */
  onrefused: (error: Error) => void;
  /** Called when the member is out of the room: refused, or the server is gone. */
  onfatal: (error: Error) => void;
}
