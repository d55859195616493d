/** What a rendezvous needs, and how it reports what happens. */
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
  /** The first message; the browser's id is added to it. */
  hello: Extract<ClientMessage, { type: 'create' | 'join' }>;
  connectPeer: PeerConnector;
  connectTab: TabConnector;
  /** By default as the room's job has it. */
  transport?: TransportName;
  clock: Clock;
  /** A number from 0 up to 1, as Math.random. */
  random: () => number;
  openSocket: OpenSocket;
  /** Resolves with the id that all tabs of this browser share. */
  browserId: () => Promise<string>;
  /** Also after a return, and where the server has let this tab in as somebody new. */
  onadmitted: (message: Extract<ServerMessage, { type: 'admitted' }>) => void;
  /** The key that makes this tab a host has been renewed. */
  onhostkey?: (room: string, hostKey: string) => void;
  onroom: (message: Extract<ServerMessage, { type: 'room' }>) => void;
  onstate: (status: RankStatus) => void;
  /** What rank 0 tells of the run: only those who watch hear it. */
  onspectatorupdate?: (update: string) => void;
  /**
   * SYNCING: resolves with what this rank has once it has what the others have. Never before the
   * last one has settled.
   */
  enter: (generation: Generation) => Promise<StateReport>;
  /** RUNNING: resolves with the state after the last step. */
  train: (generation: Generation) => Promise<StateReport>;
  /** What a rejection of the two means for the others, where no rank that has gone is the cause. */
  scopeOf: (error: unknown) => Extract<ClientMessage, { type: 'failed' }>['scope'];
  /** The others go on without this member for a while, and why. */
  onsuspended?: (message: string) => void;
  /** Run `run` is over; the member is still in the room. */
  onended: (outcome: RunOutcome, message: string, run: number) => void;
  /** The server refused a wish; nothing has changed. */
  onrefused: (error: Error) => void;
  /** The member is out of the room: refused, or the server is gone. */
  onfatal: (error: Error) => void;
}
