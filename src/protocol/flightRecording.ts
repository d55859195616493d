/** What a flight recorder gives: plain data, JSON-able. */
import type { HopEvent, StepLane } from './events.ts';

export interface FlightRecord {
  /** Number of the process group; 0 is the world. */
  group: number;
  kind: 'collective' | 'send' | 'receive';
  /** Sequence number in the group; of a message, its number from sender to receiver, `null` for a receive nothing came for. */
  seq: number | null;
  /** `allReduce`. */
  op: string;
  /** How its data goes, as the cost model chose: `ring`, `halving-doubling`, `doubling`, `tree`, `direct`. */
  algorithm: string;
  /** `float32`. */
  dtype: string;
  /** Elements of the whole tensor. */
  count: number;
  /** As messages say it: `allReduce(25450 float32, SUM)`. */
  call: string;
  /** Scheduled ops wait for others of this rank; started ones for other ranks. */
  state: 'scheduled' | 'started' | 'completed' | 'failed';
  /** Milliseconds of this rank's clock; `null` while not yet. */
  scheduledAt: number;
  startedAt: number | null;
  endedAt: number | null;
  /** Bytes of frames this rank has sent for it. */
  bytesSent: number;
}

/** How one bucket of one step went round the ring, as its rank saw it. */
export interface RecordedTrace {
  step: number;
  bucket: number;
  bytes: number;
  startedAt: number;
  hops: HopEvent[];
}

/** What is downloaded: everything needed to lay ranks side by side. Version 1 had records only. */
export interface FlightRecording {
  format: 'peergrad-flight-recording';
  version: 2;
  rank: number;
  worldSize: number;
  epoch: number;
  /** Oldest first, like all that follows. */
  records: FlightRecord[];
  traces: RecordedTrace[];
  lanes: StepLane[];
  /** By rank: how far its clock is ahead of this one's, where that is known. */
  clocks: ({ offsetMs: number; errorMs: number } | null)[];
}
