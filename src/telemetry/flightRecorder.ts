/**
 * The last collectives and messages of one rank, kept to be looked at when something went wrong: what torch's flight recorder
 * is for NCCL (https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html). Plain data, JSON-able.
 */

/** Records kept: some hundred steps of a few buckets, at about 200 bytes each. */
export const FLIGHT_RECORDS = 1024;

export interface FlightRecord {
  /** Number of the process group; 0 is the world. */
  group: number;
  kind: 'collective' | 'send' | 'receive';
  /** Sequence number in the group; of a message, its number from sender to receiver, `null` for a receive nothing came for. */
  seq: number | null;
  /** `allReduce`. */
  op: string;
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

export class FlightRecorder {
  readonly #rank: number;
  readonly #worldSize: number;
  readonly #epoch: number;
  /** A ring: once full, `#next` is the oldest. */
  readonly #records: FlightRecord[] = [];
  #next = 0;

  constructor({ rank, worldSize, epoch }: Pick<FlightRecording, 'rank' | 'worldSize' | 'epoch'>) {
    this.#rank = rank;
    this.#worldSize = worldSize;
    this.#epoch = epoch;
  }

  /** Keeps a record; whoever gives it goes on writing what happens to it. */
  add(record: FlightRecord): FlightRecord {
    this.#records[this.#next] = record;
    this.#next = (this.#next + 1) % FLIGHT_RECORDS;
    return record;
  }

  /** Oldest first. */
  get records(): FlightRecord[] {
    return [...this.#records.slice(this.#next), ...this.#records.slice(0, this.#next)];
  }

  /** A copy of everything, as it is now. */
  dump(): FlightRecording {
    return {
      format: 'peergrad-flight-recording',
      version: 1,
      rank: this.#rank,
      worldSize: this.#worldSize,
      epoch: this.#epoch,
      records: this.records.map((record) => ({ ...record })),
    };
  }
}
