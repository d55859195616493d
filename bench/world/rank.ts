/** Interfaces of experiments, and messages between page and worker of a benchmark's tab. */
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import type { RelayReply, RelayRequest } from '../../src/engine/membership/peerRelay.ts';
import type { TransportName } from '../../src/spec/job.ts';
import type { Link } from '../../src/transport/link.ts';
import type { BareChannel } from './bareChannels.ts';
import type { WorkerSignal } from './signals.ts';

/** A rank in its worker: over real links, as in a training run. */
export interface WorkerRank {
  readonly rank: number;
  readonly worldSize: number;
  readonly group: ProcessGroup;
  /**
   * A link over the connection to a neighbour, besides the group's; its frames have
   * LINK_GENERATION.
   */
  readonly spareLinkTo: (peer: number) => Link;
}

/** A rank on its page. */
export interface PageRank {
  readonly rank: number;
  readonly worldSize: number;
  /**
   * The bare data channel to another rank: opened when both have requested it, then always the
   * same.
   */
  channelTo(peer: number): Promise<BareChannel>;
  /** A simple-peer link on the page to another rank: opened like the channel. */
  linkTo(peer: number): Promise<Link>;
}

/** Runs on all ranks at once. Arguments and results cross processes: plain data. */
export type Experiment<Rank, Args = never, Result = unknown> = (rank: Rank, args: Args) => Promise<Result>;

export interface RankSetup {
  rank: number;
  worldSize: number;
  /** `auto` is for tabs of one browser. */
  transport: TransportName;
}

/** Page to worker. */
export type ToRank =
  | ({ type: 'start' } & RankSetup)
  | { type: 'signal'; from: number; signal: WorkerSignal }
  | { type: 'run'; name: string; args: unknown }
  | { type: 'relay'; reply: RelayReply };

/** Worker to page. */
export type FromRank =
  | { type: 'started' }
  | { type: 'signal'; to: number; signal: WorkerSignal }
  | { type: 'ran'; result: unknown }
  | { type: 'failed'; message: string }
  | { type: 'relay'; request: RelayRequest };
