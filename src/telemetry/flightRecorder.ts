/**
 * Records the latest collectives and messages of one rank, to diagnose failures, like torch's
 * flight recorder for NCCL
 * (https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html).
 */

import type { FlightRecord, FlightRecording } from '../protocol/flightRecording.ts';

/**
 * Number of records that are stored. They cover several hundred steps with a few buckets, and take
 * about 200 bytes each.
 */
const FLIGHT_RECORDS = 1024;

/** The fields of a record that are known from the start. */
type FlightSubject = Omit<FlightRecord, 'state' | 'scheduledAt' | 'startedAt' | 'endedAt' | 'bytesSent'>;

export class FlightRecorder {
  readonly #rank: number;
  readonly #worldSize: number;
  readonly #generation: number;
  /**
   * A ring buffer of records. When the buffer is full, `#next` is the index of the oldest record.
   */
  readonly #records: FlightRecord[] = [];
  #next = 0;

  constructor({ rank, worldSize, generation }: Pick<FlightRecording, 'rank' | 'worldSize' | 'generation'>) {
    this.#rank = rank;
    this.#worldSize = worldSize;
    this.#generation = generation;
  }

  /**
   * Adds and returns a record of an op scheduled at time `now`. The caller later updates the
   * record.
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

  /** All records, oldest first. */
  get records(): FlightRecord[] {
    return [...this.#records.slice(this.#next), ...this.#records.slice(0, this.#next)];
  }

  /** Returns the record of a collective; `undefined` if it is no longer stored. */
  find(group: number, seq: number): FlightRecord | undefined {
    return this.records.findLast(
      (record) => record.group === group && record.kind === 'collective' && record.seq === seq,
    );
  }

  /** Returns a copy of all records. The caller adds data about steps. */
  dump(): FlightRecording {
    return {
      format: 'peergrad-flight-recording',
      version: 3,
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
