/** Types of experiments, and of messages between the page and the worker of a benchmark's tab. */
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import type { PeerRelayReply, PeerRelayRequest } from '../../src/engine/membership/peerRelay.ts';
import type { IceServer } from '../../src/protocol/control.ts';
import type { LinkSignal } from '../../src/protocol/linkSignal.ts';
import type { TransportName } from '../../src/spec/names.ts';
import type { Link } from '../../src/transport/link.ts';
import type { BareChannel, PageSignal } from './bareChannels.ts';

/**
 * A signal between the tabs of two ranks, sent through the process that opened the tabs. It belongs
 * to a link of the engine, or to a bare channel of the page.
 */
export type TabSignal = WorkerSignal | PageSignal;
type WorkerSignal = { for: 'worker'; attempt: number; signal: LinkSignal };

/** What an experiment in a rank's worker can use. The links are real, as in a training run. */
export interface WorkerRank {
  readonly group: ProcessGroup;
  /**
   * Returns a second link over the connection to a neighbour, in addition to the group's link. Each
   * call returns the same link. Its frames must have LINK_GENERATION.
   */
  readonly spareLinkTo: (peer: number) => Link;
}

/** What an experiment on a rank's page can use. */
export interface PageRank {
  readonly rank: number;
  readonly worldSize: number;
  /**
   * Resolves with the bare data channel to another rank. It is opened when both ranks have called
   * this function, and later calls return the same channel.
   */
  channelTo(peer: number): Promise<BareChannel>;
}

/**
 * A function that runs on all ranks at once. Its arguments and results must be plain data, because
 * they are sent between processes.
 */
export type Experiment<Rank, Args = never, Result = unknown> = (rank: Rank, args: Args) => Promise<Result>;

export interface RankSetup {
  rank: number;
  worldSize: number;
  /** `auto` links tabs of one browser by message ports. */
  transport: TransportName;
  /** `null` if the ranks are not linked through the server. */
  served: ServedRank | null;
  iceServers: readonly IceServer[];
  /** Whether connections must go through a TURN server. */
  relayOnly: boolean;
}

/** A rank that is linked through the server only. */
export interface ServedRank {
  /** URL of the signaling server. */
  server: string;
  room: string;
  /** Ids of the members in the order of ranks, and the token of this rank's member. */
  members: readonly string[];
  token: string;
}

/** Messages from the page to the worker, in addition to calls. */
export type ToRank = { type: 'signal'; from: number; signal: WorkerSignal } | { type: 'relay'; reply: PeerRelayReply };

/** Messages from the worker to the page, in addition to results. */
export type FromRank =
  | { type: 'signal'; to: number; signal: WorkerSignal }
  | { type: 'relay'; request: PeerRelayRequest };
