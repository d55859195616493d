/**
 * Events of a run that cross a wire (`spectatorUpdate.ts`) or stand in a file
 * (`flightRecording.ts`): schemas, from which their types follow. The events of `events.ts` stay in
 * one tab.
 */
import * as v from 'valibot';
import { Confusion } from './confusion.ts';
import { LessonState } from './lesson.ts';
import { RosterEntry } from './room.ts';
import { BucketChoice, CodecChoice, RunResultSchema, WrittenSample } from './runResult.ts';
import { count, finite, hash, perRank, rank, worldSize } from './scalars.ts';
import { RecordedTrace, StepTimes } from './stepTrace.ts';
import { JobSpec } from '../spec/job.ts';
import { Metrics } from '../spec/measures.ts';

/** One rank's line in everybody's table; exchanged every `hashEvery` steps. */
const RankStatistics = v.object({
  rank,
  /** Medians over the steps since the last exchange, milliseconds. */
  computeMs: finite,
  communicateMs: finite,
  stepMs: finite,
  /** Bytes of frames sent since the run began: for gradients, for all else. */
  gradientBytesSent: count,
  otherBytesSent: count,
  /** Bytes of gradients' frames received. */
  gradientBytesReceived: count,
  /** Bytes of its tensors; on a GPU, of the buffers there. */
  memoryBytes: count,
});
export type RankStatistics = v.InferOutput<typeof RankStatistics>;
/**
 * How bytes reach a neighbour: `direct` and `relayed` (TURN) over the network, `memory` inside one
 * browser.
 */
const LinkRoute = v.picklist(['direct', 'relayed', 'memory', 'unknown']);
export type LinkRoute = v.InferOutput<typeof LinkRoute>;
/** To a tab that watches, this and all that follows of the run comes from `rank`. */
export const GenerationEvent = v.object({
  type: v.literal('generation'),
  generation: count,
  /** Generations of one run share its number. */
  run: count,
  rank,
  worldSize,
  /** Which of its browser's tabs in this generation this rank is, and of how many. */
  localRank: rank,
  localWorldSize: worldSize,
  /** In ring order: index is rank. */
  members: perRank(RosterEntry),
  /**
   * Ranks that the order keeps apart, as the link between them was slow; left out where there are
   * none.
   */
  parted: v.optional(v.pipe(perRank(v.pipe(v.tuple([rank, rank]), v.readonly())), v.readonly())),
  job: JobSpec,
});

/**
 * The model is built and checked; sizes are known. Told again with `bucketChoice` where ranks have
 * chosen how to cut buckets.
 */
export const ModelEvent = v.object({
  type: v.literal('model'),
  parameters: count,
  gradientBytes: count,
  bucketBytes: v.pipe(v.array(count), v.maxLength(1024)),
  bucketChoice: v.optional(BucketChoice),
  totalSteps: count,
  trainSamples: count,
  testSamples: count,
});

/** A link of this rank came up or went down. */
export const LinkEvent = v.object({
  type: v.literal('link'),
  peerRank: rank,
  up: v.boolean(),
  route: LinkRoute,
  roundTripMs: v.nullable(finite),
});

export const StepEvent = v.object({
  type: v.literal('step'),
  step: count,
  /**
   * Pass over the data this step belongs to, from 0, and samples of the pass that were done before
   * it.
   */
  epoch: count,
  offset: count,
  /**
   * Mean loss over this step's samples: of all ranks, or of this one where ranks learn by
   * themselves.
   */
  loss: finite,
  samples: count,
  ms: StepTimes,
  /** When the step was applied, milliseconds since the run began. */
  at: finite,
});

export const TraceEvent = v.object({ type: v.literal('trace'), ...RecordedTrace.entries });

export const RanksEvent = v.object({ type: v.literal('ranks'), step: count, ranks: perRank(RankStatistics) });

export const HashesEvent = v.object({
  type: v.literal('hashes'),
  step: count,
  hashes: perRank(hash),
  agree: v.boolean(),
});

/** From this step on gradients travel by another codec: the job left the choice to the ranks. */
export const CodecEvent = v.object({ type: v.literal('codec'), step: count, choice: CodecChoice });

/**
 * Held-out samples were tested, after `step`: their mean loss, and the share classified right,
 * `null` where nothing is classified; and what else the job asks for.
 */
export const EvaluationEvent = v.object({
  type: v.literal('evaluation'),
  step: count,
  loss: finite,
  accuracy: v.nullable(finite),
  metrics: v.optional(Metrics),
  samples: count,
});

/**
 * All held-out samples were tested, after `step`, and few classes are told apart: which was taken
 * for which.
 */
export const ConfusionEvent = v.object({ type: v.literal('confusion'), step: count, ...Confusion.entries });

/**
 * Of the job `gpt`, now and then: what this rank's copy of the model writes; see {@link
 * RunResult}'s `bigramLoss`.
 */
export const SampleEvent = v.object({ type: v.literal('sample'), bigramLoss: finite, ...WrittenSample.entries });

/**
 * Of a lesson: what all its ranks hold now. `waitsFor`: the rank whose numbers this one waits for
 * in a step; `isMoving`: steps are being taken.
 */
export const LessonEvent = v.object({
  type: v.literal('lesson'),
  state: LessonState,
  waitsFor: v.nullable(rank),
  isMoving: v.boolean(),
});

export const FinishedEvent = v.object({ type: v.literal('finished'), result: RunResultSchema });
/** An event that crosses a wire, or may. */
export type RunEvent = v.InferOutput<
  | typeof GenerationEvent
  | typeof ModelEvent
  | typeof LinkEvent
  | typeof StepEvent
  | typeof TraceEvent
  | typeof RanksEvent
  | typeof HashesEvent
  | typeof CodecEvent
  | typeof EvaluationEvent
  | typeof ConfusionEvent
  | typeof SampleEvent
  | typeof LessonEvent
  | typeof FinishedEvent
>;
