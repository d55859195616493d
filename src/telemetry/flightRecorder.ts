/**
 * The last collectives and messages of one rank, kept to be looked at when something went wrong:
 * what torch's flight recorder is for NCCL
 * (https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html).
 */

import type { FlightRecord, FlightRecording } from '../protocol/flightRecording.ts';

/** Records kept: some hundred steps of a few buckets, at about 200 bytes each. */
const FLIGHT_RECORDS = 1024;

/** What a record is about, known from the start. */
type FlightSubject = Omit<FlightRecord, 'state' | 'scheduledAt' | 'startedAt' | 'endedAt' | 'bytesSent'>;

export class FlightRecorder {
  readonly #rank: number;
  readonly #worldSize: number;
  readonly #generation: number;
  /** A ring: once full, `#next` is the oldest. */
  readonly #records: FlightRecord[] = [];
  #next = 0;

  constructor({ rank, worldSize, generation }: Pick<FlightRecording, 'rank' | 'worldSize' | 'generation'>) {
    this.#rank = rank;
    this.#worldSize = worldSize;
    this.#generation = generation;
  }

  /**
   * Keeps a record of what is scheduled `now`; whoever gives it goes on writing what happens to it.
   */
  add(what: FlightSubject, now: number): FlightRecord {
    const record: FlightRecord = {
      ...what,
      state: 'scheduled',
      scheduledAt: now,
      startedAt: null,
      endedAt: null,
      bytesSent: 0,
    };
    this.#records[this.#next] = record;
    this.#next = (this.#next + 1) % FLIGHT_RECORDS;
    return record;
  }

  /** Oldest first. */
  get records(): FlightRecord[] {
    return [...this.#records.slice(this.#next), ...this.#records.slice(0, this.#next)];
  }

  /** A copy of everything, as it is now; of steps, only whoever takes them knows. */
  dump(): FlightRecording {
    return {
      format: 'peergrad-flight-recording',
      version: 2,
      rank: this.#rank,
      worldSize: this.#worldSize,
      generation: this.#generation,
      records: this.records.map((record) => ({ ...record })),
      traces: [],
      lanes: [],
      clocks: [],
    };
  }
}
