/** Reads a flight recording's file, and says what is wrong with one that is none. Pure. */
import * as v from 'valibot';
import { SEGMENT_KINDS } from '../../protocol/events.ts';
import type { FlightRecording } from '../../protocol/flightRecording.ts';
import { messageOf } from '../../util/errors.ts';
import { words } from '../words/index.ts';

const count = v.pipe(v.number(), v.integer(), v.minValue(0));
const time = v.nullable(v.number());
/** JSON writes what is no number as null. */
const lenient = v.nullable(v.number());

const FlightRecord = v.object({
  group: count,
  kind: v.picklist(['collective', 'send', 'receive']),
  seq: v.nullable(count),
  ...{ op: v.string(), algorithm: v.string(), dtype: v.string(), count, call: v.string() },
  state: v.picklist(['scheduled', 'started', 'completed', 'failed']),
  ...{ scheduledAt: v.number(), startedAt: time, endedAt: time, bytesSent: count },
});

const Hop = v.object({
  ...{ ringStep: count, sentChunk: count, receivedChunk: count, sentAt: time, receivedAt: time },
  reduceMs: v.optional(v.number()),
});

const Trace = v.object({ step: count, bucket: count, bytes: count, startedAt: v.number(), hops: v.array(Hop) });

const Segment = v.object({ kind: v.picklist(SEGMENT_KINDS), start: v.number(), end: v.number() });

const Lane = v.object({ step: count, startedAt: v.number(), duration: v.number(), segments: v.array(Segment) });

const common = {
  format: v.literal('peergrad-flight-recording'),
  worldSize: v.pipe(v.number(), v.integer(), v.minValue(1)),
  ...{ rank: count, epoch: count, records: v.array(FlightRecord) },
};

const Recording = v.variant('version', [
  v.object({
    ...common,
    version: v.literal(2),
    traces: v.array(Trace),
    lanes: v.array(Lane),
    clocks: v.array(v.nullable(v.object({ offsetMs: lenient, errorMs: lenient }))),
  }),
  // Had collectives only.
  v.object({ ...common, version: v.literal(1) }),
]);

type ReadRecording = { ok: true; recording: FlightRecording } | { ok: false; problem: string };

/** @param text a file's whole content. */
export function readRecording(text: string): ReadRecording {
  const { recording: said } = words.value.run;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { ok: false, problem: said.notJson(messageOf(error)) };
  }
  const result = v.safeParse(Recording, value);
  if (!result.success) {
    const [issue] = result.issues;
    return { ok: false, problem: said.notOurs(v.getDotPath(issue) ?? '', issue.message) };
  }
  const read = result.output;
  if (read.rank >= read.worldSize)
    return { ok: false, problem: said.notOurs('rank', `${read.rank} of ${read.worldSize}`) };
  if (read.version === 1) return { ok: true, recording: { ...read, version: 2, traces: [], lanes: [], clocks: [] } };
  const clocks = read.clocks.map((one) =>
    one === null || one.offsetMs === null || one.errorMs === null
      ? null
      : { offsetMs: one.offsetMs, errorMs: one.errorMs },
  );
  const traces = read.traces.map((trace) => ({ ...trace, hops: trace.hops.map(withoutUndefined) }));
  return { ok: true, recording: { ...read, traces, clocks } };
}

function withoutUndefined({ reduceMs, ...hop }: v.InferOutput<typeof Hop>) {
  return reduceMs === undefined ? hop : { ...hop, reduceMs };
}
