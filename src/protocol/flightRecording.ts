/** What a flight recorder gives: plain data, JSON-able. */
import * as v from 'valibot';
import { count } from './scalars.ts';
import { RecordedTrace, StepLane } from './stepTrace.ts';

const time = v.nullable(v.number());

const FlightRecordSchema = v.object({
  /** Number of the process group; 0 is the world. */
  group: count,
  kind: v.picklist(['collective', 'send', 'receive']),
  /**
   * Sequence number in the group; of a message, its number from sender to receiver, `null` for a
   * receive nothing came for.
   */
  seq: v.nullable(count),
  /** `allReduce`. */
  op: v.string(),
  /**
   * How its data goes, as the cost model chose: `ring`, `halving-doubling`, `doubling`, `tree`,
   * `direct`.
   */
  algorithm: v.string(),
  /** `float32`. */
  dtype: v.string(),
  /** Elements of the whole tensor. */
  count,
  /** As messages say it: `allReduce(25450 float32, SUM)`. */
  call: v.string(),
  /** Scheduled ops wait for others of this rank; started ones for other ranks. */
  state: v.picklist(['scheduled', 'started', 'completed', 'failed']),
  /** Milliseconds of this rank's clock; `null` while not yet. */
  scheduledAt: v.number(),
  startedAt: time,
  endedAt: time,
  /** Bytes of frames this rank has sent for it. */
  bytesSent: count,
});
export interface FlightRecord extends v.InferOutput<typeof FlightRecordSchema> {}

/** What is downloaded: everything needed to lay ranks side by side. */
export const FlightRecordingSchema = v.object({
  format: v.literal('peergrad-flight-recording'),
  version: v.literal(2),
  rank: count,
  worldSize: v.pipe(count, v.minValue(1)),
  generation: count,
  /** Oldest first, like all that follows. */
  records: v.array(FlightRecordSchema),
  traces: v.array(RecordedTrace),
  lanes: v.array(StepLane),
  /** By rank: how far its clock is ahead of this one's, where that is known. */
  clocks: v.array(v.nullable(v.object({ offsetMs: v.number(), errorMs: v.number() }))),
});
export interface FlightRecording extends v.InferOutput<typeof FlightRecordingSchema> {}
