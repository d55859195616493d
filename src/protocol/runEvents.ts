/**
 * Schemas of those events of a run that are sent to spectators (`spectatorUpdate.ts`) or stored in
 * a file (`flightRecording.ts`). Other events (`events.ts`) stay in their tab and have only types.
 */
import * as v from 'valibot';
import { ConfusionMatrix } from './confusion.ts';
import { LessonState } from './lesson.ts';
import { RosterEntry } from './room.ts';
import { CodecChoice, MAX_LAYER_NAME_LENGTH, RunResultSchema, WrittenSample } from './runResult.ts';
import {
  countSchema,
  finiteSchema,
  hashSchema,
  perRankSchema,
  rankSchema,
  textSchema,
  worldSizeSchema,
} from './scalars.ts';
import { StepCommandCounts, AllReduceTraceRecord, StepTimes } from './stepTrace.ts';
import { JobSpec } from '../spec/job.ts';
import { MetricValues } from '../spec/measures.ts';
import { RUN_ALGORITHM_NAMES } from '../spec/algorithms.ts';
import { WORK_SHARE_REASONS } from '../spec/names.ts';
import { PIPELINE_SCHEDULE_NAMES } from '../spec/pipeline.ts';

/** Statistics of one rank. Ranks exchange them every `hashEvery` steps. */
const RankStatistics = v.object({
  rank: rankSchema,
  /** Durations in milliseconds, as medians over the steps since the previous exchange. */
  dataMs: finiteSchema,
  computeMs: finiteSchema,
  communicateMs: finiteSchema,
  stepMs: finiteSchema,
  /**
   * Bytes of frames that the rank has sent since the run began: for gradients, and for everything
   * else.
   */
  gradientBytesSent: countSchema,
  otherBytesSent: countSchema,
  /** Bytes of received frames with gradients. */
  gradientBytesReceived: countSchema,
  /** Bytes of the rank's tensors; on a GPU, of its buffers. */
  memoryBytes: countSchema,
  /** Medians over the steps since the previous exchange. */
  commands: v.exactOptional(StepCommandCounts),
});
export type RankStatistics = v.InferOutput<typeof RankStatistics>;
/**
 * The route to a neighbour. `direct` and `relayed` (TURN) are WebRTC; `memory` stays inside one
 * browser; `server` goes through the signaling server, encrypted, and `server-clear` in the clear.
 */
export const LINK_ROUTES = ['unknown', 'direct', 'relayed', 'memory', 'server', 'server-clear'] as const;
const LinkRoute = v.picklist(LINK_ROUTES);
export type LinkRoute = v.InferOutput<typeof LinkRoute>;

/** Whether the route goes through the signaling server. */
export function isServedRoute(route: LinkRoute): boolean {
  return route === 'server' || route === 'server-clear';
}

/**
 * A new generation has begun. For spectators, this event and all later events of the run are those
 * of `rank`.
 */
export const GenerationEvent = v.object({
  type: v.literal('generation'),
  generation: countSchema,
  /** The run's number, the same in all its generations. */
  run: countSchema,
  rank: rankSchema,
  worldSize: worldSizeSchema,
  /**
   * Like torchrun's LOCAL_RANK and LOCAL_WORLD_SIZE: this rank's index among the ranks of its
   * browser, and the number of these ranks.
   */
  localRank: rankSchema,
  localWorldSize: worldSizeSchema,
  /** The members in ring order: a member's index is its rank. */
  members: perRankSchema(RosterEntry),
  /**
   * Pairs of ranks that are not neighbours in the ring, because the link between them was slow.
   * Missing if there are none.
   */
  separated: v.optional(v.pipe(perRankSchema(v.pipe(v.tuple([rankSchema, rankSchema]), v.readonly())), v.readonly())),
  job: JobSpec,
});

/** The model is built and checked. The event states the model's sizes. */
export const ModelEvent = v.object({
  type: v.literal('model'),
  parameters: countSchema,
  gradientBytes: countSchema,
  bucketBytes: v.pipe(v.array(countSchema), v.maxLength(1024)),
  totalSteps: countSchema,
  trainSamples: countSchema,
  testSamples: countSchema,
});

const MAX_LAYERS = 512;

/** The stages of a run with a pipeline in this world. Emitted after the event `model`. */
export const PipelineEvent = v.object({
  type: v.literal('pipeline'),
  /**
   * Number of ranks of each replica. Replica r consists of the ranks from r * `ranks` on, in the
   * order of their stages. The last ranks of the world may have no stage.
   */
  ranks: worldSizeSchema,
  replicas: worldSizeSchema,
  microBatches: countSchema,
  schedule: v.picklist(PIPELINE_SCHEDULE_NAMES),
  /**
   * Whether there are `ranks` + 1 stages, of which a replica's first rank has the first and the
   * last.
   */
  ring: v.boolean(),
  /** Layers in their order, with the bytes of their weights, gradients and averages. */
  layers: v.pipe(
    v.array(v.object({ name: textSchema(MAX_LAYER_NAME_LENGTH), bytes: countSchema })),
    v.maxLength(MAX_LAYERS),
  ),
  /** Number of layers of each stage. */
  cut: perRankSchema(countSchema),
});

/** A link of this rank opened or closed. */
export const LinkEvent = v.object({
  type: v.literal('link'),
  peerRank: rankSchema,
  up: v.boolean(),
  route: LinkRoute,
  roundTripMs: v.nullable(finiteSchema),
});

export const StepEvent = v.object({
  type: v.literal('step'),
  step: countSchema,
  /** The epoch of the step, from 0, and the number of samples of this epoch in earlier steps. */
  epoch: countSchema,
  offset: countSchema,
  /**
   * Mean loss over the step's samples: those of all ranks, or those of this rank if ranks train
   * independently.
   */
  loss: finiteSchema,
  samples: countSchema,
  ms: StepTimes,
  /** The time when the step's parameters were updated, in milliseconds since the run began. */
  at: finiteSchema,
});

export const TraceEvent = v.object({ type: v.literal('trace'), ...AllReduceTraceRecord.entries });

export const RanksEvent = v.object({
  type: v.literal('ranks'),
  step: countSchema,
  ranks: perRankSchema(RankStatistics),
});

export const HashesEvent = v.object({
  type: v.literal('hashes'),
  step: countSchema,
  hashes: perRankSchema(hashSchema),
  agree: v.boolean(),
});

/** From this step on, this algorithm sends most bytes of the gradients. */
export const AlgorithmEvent = v.object({
  type: v.literal('algorithm'),
  step: countSchema,
  algorithm: v.picklist(RUN_ALGORITHM_NAMES),
});

/**
 * From this step on, ranks have these shares of each step. Emitted when a share or the reason
 * changes, or when a speed changes by a tenth.
 */
export const SharesEvent = v.object({
  type: v.literal('shares'),
  step: countSchema,
  /** By rank, in quarters of the batch size: 4 is an equal share. */
  shares: perRankSchema(countSchema),
  reason: v.picklist(WORK_SHARE_REASONS),
  /** By rank, in samples per second; `null` if the speed is not known or impossible. */
  speeds: perRankSchema(v.nullable(finiteSchema)),
  /**
   * Ranks that reported an impossible speed, each with that speed. None of them gets more than an
   * equal share.
   */
  impossible: perRankSchema(v.object({ rank: rankSchema, reported: textSchema(32) })),
});

/** From this step on, gradients use the codec that the ranks have chosen. */
export const CodecEvent = v.object({ type: v.literal('codec'), step: countSchema, choice: CodecChoice });

/**
 * The model was evaluated on held-out samples after `step`: their mean loss, the accuracy (`null`
 * if the task is not a classification), and the job's other metrics.
 */
export const EvaluationEvent = v.object({
  type: v.literal('evaluation'),
  step: countSchema,
  loss: finiteSchema,
  accuracy: v.nullable(finiteSchema),
  metrics: v.optional(MetricValues),
  samples: countSchema,
});

/**
 * The confusion matrix of all held-out samples after `step`. Emitted only if there are few classes.
 */
export const ConfusionEvent = v.object({ type: v.literal('confusion'), step: countSchema, ...ConfusionMatrix.entries });

/**
 * Text generated by this rank's copy of a language model during training. `bigramLoss` is the same
 * as in `RunResult`.
 */
export const WrittenSampleEvent = v.object({
  type: v.literal('sample'),
  bigramLoss: finiteSchema,
  ...WrittenSample.entries,
});

/**
 * The numbers of all ranks of a lesson. `waitsFor` is the rank whose numbers this rank is waiting
 * for. `isMoving` means that steps are being taken.
 */
export const LessonEvent = v.object({
  type: v.literal('lesson'),
  state: LessonState,
  waitsFor: v.nullable(rankSchema),
  isMoving: v.boolean(),
});

export const FinishedEvent = v.object({ type: v.literal('finished'), result: RunResultSchema });
/** An event that may be sent to spectators or stored in a file. */
export type RunEvent = v.InferOutput<
  | typeof GenerationEvent
  | typeof ModelEvent
  | typeof PipelineEvent
  | typeof LinkEvent
  | typeof StepEvent
  | typeof TraceEvent
  | typeof RanksEvent
  | typeof HashesEvent
  | typeof AlgorithmEvent
  | typeof SharesEvent
  | typeof CodecEvent
  | typeof EvaluationEvent
  | typeof ConfusionEvent
  | typeof WrittenSampleEvent
  | typeof LessonEvent
  | typeof FinishedEvent
>;
