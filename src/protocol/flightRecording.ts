/** What a flight recorder gives: plain data, JSON-able. */

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

/** What is downloaded: everything needed to lay ranks side by side. */
export interface FlightRecording {
  format: 'peergrad-flight-recording';
  version: 1;
  rank: number;
  worldSize: number;
  epoch: number;
  /** Oldest first. */
  records: FlightRecord[];
}
