/** The contents of a flight recorder: plain data that can be written as JSON. */
import * as v from 'valibot';
import { countSchema } from './scalars.ts';
import { AllReduceTraceRecord, StepLane } from './stepTrace.ts';

const time = v.nullable(v.number());

const FlightRecordSchema = v.object({
  /** Number of the process group; 0 is the world. */
  group: countSchema,
  kind: v.picklist(['collective', 'send', 'receive']),
  /**
   * Sequence number of the collective in its group. Messages are numbered per sender and receiver.
   * `null` for a receive whose message has not arrived.
   */
  seq: v.nullable(countSchema),
  /** `allReduce`. */
  op: v.string(),
  /** The algorithm: `ring`, `two-level`, `halving-doubling`, `doubling`, `tree` or `direct`. */
  algorithm: v.string(),
  /** `float32`. */
  dtype: v.string(),
  /** The number of elements of the whole tensor. */
  count: countSchema,
  /** The call, as in error messages: `allReduce(25450 float32, SUM)`. */
  call: v.string(),
  /** A scheduled op waits for other ops of this rank. A started op waits for other ranks. */
  state: v.picklist(['scheduled', 'started', 'completed', 'failed']),
  /**
   * Times by this rank's clock, in milliseconds. `startedAt` and `endedAt` are `null` until the op
   * has started or ended.
   */
  scheduledAt: v.number(),
  startedAt: time,
  endedAt: time,
  /** Bytes of frames that this rank has sent for the op. */
  bytesSent: countSchema,
});
export interface FlightRecord extends v.InferOutput<typeof FlightRecordSchema> {}

/** The downloaded file: everything needed to compare ranks. */
export const FlightRecordingSchema = v.object({
  format: v.literal('peergrad-flight-recording'),
  version: v.literal(3),
  rank: countSchema,
  worldSize: v.pipe(countSchema, v.minValue(1)),
  generation: countSchema,
  /** Records of collectives and messages. Like traces and lanes, they begin with the oldest. */
  records: v.array(FlightRecordSchema),
  traces: v.array(AllReduceTraceRecord),
  lanes: v.array(StepLane),
  /**
   * For each rank: the milliseconds by which its clock is ahead of this rank's clock; `null` if
   * unknown.
   */
  clocks: v.array(v.nullable(v.object({ offsetMs: v.number(), errorMs: v.number() }))),
});
export interface FlightRecording extends v.InferOutput<typeof FlightRecordingSchema> {}
