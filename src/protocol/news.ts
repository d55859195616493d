/**
 * What those who only watch are told of a run: some of the engine events of rank 0, as JSON text. The signaling server hands the
 * text on without a look at it, so both ends check it: who tells sends only what fits, who watches believes nothing else.
 */
import * as v from 'valibot';
import { parseJson } from '../util/json.ts';
import { MAX_CLASS_NAME, MAX_CONFUSED_CLASSES } from './confusion.ts';
import { Device, MAX_WORLD_SIZE, RosterEntry } from './control.ts';
import type { EngineEvent, RunResult } from './events.ts';
import { MAX_PROMPT } from './gpt.ts';
import { CODEC_NAMES, JobSpec, STRATEGY_NAMES } from './job.ts';
import { LessonState } from './lesson.ts';
import { METRIC_NAMES } from './measures.ts';

/** Characters: a token of byte pairs may be a long word. */
const MAX_SAMPLE_LENGTH = 4000;

const text = (max: number) => v.pipe(v.string(), v.maxLength(max));
const number = v.pipe(v.number(), v.finite());
const count = v.pipe(number, v.integer(), v.minValue(0));
const rank = v.pipe(count, v.maxValue(MAX_WORLD_SIZE - 1));
const worldSize = v.pipe(count, v.minValue(1), v.maxValue(MAX_WORLD_SIZE));
/** One of each rank. */
const ofRanks = <Schema extends v.GenericSchema>(schema: Schema) =>
  v.pipe(v.array(schema), v.maxLength(MAX_WORLD_SIZE));
/** One of each class. */
const ofClasses = <Schema extends v.GenericSchema>(schema: Schema) =>
  v.pipe(v.array(schema), v.minLength(1), v.maxLength(MAX_CONFUSED_CLASSES));
const hash = text(64);
/** Of numbers of which there are too many to tell. */
const none = v.pipe(v.array(number), v.maxLength(0));

const Times = v.object({
  ...{ total: number, compute: number, readback: number, communicate: number, exposed: number, update: number },
});
const Hop = v.object({
  ...{ ringStep: count, sentChunk: count, receivedChunk: count },
  ...{ sentAt: v.nullable(number), receivedAt: v.nullable(number) },
});
const Statistics = v.object({
  ...{ rank, computeMs: number, communicateMs: number, stepMs: number },
  ...{ gradientBytesSent: count, otherBytesSent: count, gradientBytesReceived: count, memoryBytes: count },
});
const Choice = v.object({
  ...{ codec: v.picklist(CODEC_NAMES), ownMs: number, communicateMs: number, exposedMs: number, bytesPerMs: number },
  expectedMs: v.object({ fp32: number, fp16: number, int8: number, powersgd: number }),
  suggestion: v.nullable(v.picklist(['local-sgd', 'diloco'])),
});
const OfBuckets = v.object({
  ...{ capBytes: count, latencyMs: number, bytesPerMs: number, expectedMs: number, usualMs: number },
});
const OfMetrics = v.record(v.picklist(METRIC_NAMES), number);
/** Without the confusion, which is told apart: the end must fit a digest. */
const Result = v.object({
  ...{
    worldSize,
    strategy: v.picklist(STRATEGY_NAMES),
    codec: v.picklist(CODEC_NAMES),
    choice: v.optional(Choice),
    bucketChoice: v.optional(OfBuckets),
    backend: Device.entries.backend,
    adapter: text(200),
  },
  transport: v.picklist(['webrtc', 'memory', 'mixed', 'none', 'unknown']),
  ...{ steps: count, epochs: count, loss: number, accuracy: v.nullable(number), valLoss: v.nullable(number) },
  metrics: v.optional(OfMetrics),
  ...{ stateHash: ofRanks(hash), bytesSentPerRank: ofRanks(count) },
  ...{ bytesReceivedPerRank: ofRanks(count), otherBytesSentPerRank: ofRanks(count), gradientBytes: count },
  ...{ memoryBytesPerRank: ofRanks(count), bigramLoss: v.optional(number) },
  stepMs: v.object({ median: number, p95: number, compute: number, communicate: number, exposed: number }),
  /** None: as many as there were steps. */
  losses: none,
  rateTest: v.optional(
    v.object({
      ...{ rates: none, losses: none, suggested: v.nullable(number) },
      reason: v.nullable(v.picklist(['flat', 'short'])),
    }),
  ),
  ...{ restarts: count, ms: number },
});

/** Fields that are not here are left out. */
export const NewsEvent = v.variant('type', [
  v.object({
    ...{ type: v.literal('epoch'), epoch: count, run: count, rank, worldSize, localRank: rank },
    ...{ localWorldSize: worldSize, members: ofRanks(RosterEntry), job: JobSpec },
    parted: v.optional(ofRanks(v.tuple([rank, rank]))),
  }),
  v.object({
    ...{ type: v.literal('model'), parameters: count, gradientBytes: count },
    ...{ bucketBytes: v.pipe(v.array(count), v.maxLength(1024)), totalSteps: count },
    bucketChoice: v.optional(OfBuckets),
    ...{ trainSamples: count, testSamples: count },
  }),
  v.object({
    ...{ type: v.literal('link'), peerRank: rank, up: v.boolean() },
    route: v.picklist(['direct', 'relayed', 'memory', 'unknown']),
    roundTripMs: v.nullable(number),
  }),
  v.object({
    ...{ type: v.literal('step'), step: count, dataEpoch: count, offset: count, loss: number, samples: count },
    ...{ ms: Times, at: number },
  }),
  v.object({
    ...{ type: v.literal('evaluation'), step: count, loss: number, accuracy: v.nullable(number), samples: count },
    metrics: v.optional(OfMetrics),
  }),
  v.pipe(
    v.object({
      type: v.literal('confusion'),
      step: count,
      classes: ofClasses(text(MAX_CLASS_NAME)),
      counts: ofClasses(ofClasses(count)),
    }),
    v.check(({ classes, counts }) => [counts, ...counts].every(({ length }) => length === classes.length)),
  ),
  v.object({
    ...{ type: v.literal('trace'), step: count, bucket: count, bytes: count, startedAt: number },
    hops: v.pipe(v.array(Hop), v.maxLength(2 * (MAX_WORLD_SIZE - 1))),
  }),
  v.object({ type: v.literal('codec'), step: count, choice: Choice }),
  v.object({ type: v.literal('ranks'), step: count, ranks: ofRanks(Statistics) }),
  v.object({ type: v.literal('hashes'), step: count, hashes: ofRanks(hash), agree: v.boolean() }),
  v.object({ type: v.literal('lesson'), state: LessonState, waitsFor: v.nullable(rank), isMoving: v.boolean() }),
  v.object({
    ...{ type: v.literal('sample'), bigramLoss: number, steps: count, loss: number },
    ...{ prompt: text(MAX_PROMPT), text: text(MAX_SAMPLE_LENGTH) },
  }),
  v.object({ type: v.literal('finished'), result: Result }),
]);
export type NewsEvent = v.InferOutput<typeof NewsEvent>;

/** `null`: it is none of those that are told, or not fit to be. */
export function newsOf(event: EngineEvent): NewsEvent | null {
  const told = event.type === 'finished' ? { ...event, result: withoutSteps(event.result) } : event;
  const result = v.safeParse(NewsEvent, told);
  return result.success ? result.output : null;
}

/** Without what it has of every step. */
function withoutSteps(result: RunResult): RunResult {
  const { rateTest } = result;
  return { ...result, losses: [], ...(rateTest && { rateTest: { ...rateTest, rates: [], losses: [] } }) };
}

/** The events of a digest; what does not fit is left out. */
export function parseNews(digest: string): NewsEvent[] {
  const value = parseJson(digest);
  if (!Array.isArray(value)) return [];
  return value.flatMap((one) => {
    const result = v.safeParse(NewsEvent, one);
    return result.success ? [result.output] : [];
  });
}
