/** Creates minimal recordings and timelines for tests. */
import type { StepLane } from '../../../src/protocol/stepTrace.ts';
import type { FlightRecord, FlightRecording } from '../../../src/protocol/flightRecording.ts';

export function record(seq: number, change: Partial<FlightRecord> = {}): FlightRecord {
  return {
    group: 0,
    kind: 'collective',
    seq,
    op: 'allReduce',
    algorithm: 'ring',
    dtype: 'float32',
    count: 10,
    call: 'allReduce(10 float32, SUM)',
    state: 'completed',
    scheduledAt: seq,
    startedAt: seq,
    endedAt: seq + 1,
    bytesSent: 40,
    ...change,
  };
}

export function recording(rank: number, change: Partial<FlightRecording> = {}): FlightRecording {
  return {
    format: 'peergrad-flight-recording',
    version: 3,
    rank,
    worldSize: 3,
    generation: 1,
    records: [],
    traces: [],
    lanes: [],
    clocks: [],
    ...change,
  };
}

/** Returns a lane with 10 ms of computation and 5 ms of waiting. */
export function lane(step: number, startedAt: number): StepLane {
  return {
    step,
    startedAt,
    duration: 15,
    segments: [
      { kind: 'compute', start: 0, end: 10 },
      { kind: 'wait', start: 10, end: 15 },
    ],
  };
}
