/**
 * What one rank tells about its life: the only thing the pages, the launcher and the tests see of
 * the engine. Every picture and number on the screen derives from these events. Plain data,
 * structured-clone-able and JSON-able (times in milliseconds of this rank's clock, sizes in bytes).
 *
 * Events that cross a wire (`news.ts`) or stand in a file (`flightRecording.ts`) are schemas, and
 * their types follow from them. The other events stay in one tab: they are types only.
 */
import * as v from 'valibot';
import { Confusion } from './confusion.ts';
import { count, Device, MAX_WORLD_SIZE, rank, RosterEntry, text, worldSize, type ServerMessage } from './control.ts';
import type { FlightRecording } from './flightRecording.ts';
import { RecordedTrace, StepTimes, type StepLane } from './stepTrace.ts';
import { MAX_PROMPT } from '../spec/gpt.ts';
import { JobSpec } from '../spec/job.ts';
import type { Learned } from '../spec/inspection.ts';
import { LessonState, type LessonOrder } from './lesson.ts';
import { Metrics } from '../spec/measures.ts';
import type { Preview } from '../spec/preview.ts';
import { CODEC_NAMES, STRATEGY_NAMES } from '../spec/names.ts';
import type { ModelFormat, ModelVersion } from '../spec/modelFile.ts';

/** Characters: a token of byte pairs may be a long word. */
const MAX_SAMPLE_LENGTH = 4000;

const number = v.pipe(v.number(), v.finite());
/** One of each rank. */
const ofRanks = <const Schema extends v.GenericSchema>(schema: Schema) =>
  v.pipe(v.array(schema), v.maxLength(MAX_WORLD_SIZE));
const hash = text(64);

/** The client side of membership; docs/ARCHITECTURE.md draws it. */
export type RankState = 'OFFLINE' | 'WAITING' | 'LINKING' | 'SYNCING' | 'RUNNING';

/** Where a rank stands. */
export interface RankStatus {
  state: RankState;
  /** Membership generation that `state` is about. */
  generation: number;
  /** The same in a sentence, for logs. */
  detail: string;
  /** The connection to the signaling server is lost, and being made anew. */
  isServerAway: boolean;
  /**
   * Neighbours that it connects to, by their ranks in the generation to come, and whether over a
   * relay only.
   */
  connecting: readonly { rank: number; isRelayed: boolean }[];
}

/** What is got ready before a first step. */
export type WarmupStage = 'drawing' | 'data' | 'compiling' | 'recovering';

/** The link to a rank's right neighbour; bytes since the links of this generation were made. */
export interface EdgeReport {
  route: LinkRoute;
  roundTripMs: number | null;
  bytesSent: number;
  bytesReceived: number;
  /**
   * Mean time of a chunk of the second round (all-gather) from hand to hand; `null` until the
   * clocks are compared.
   */
  transitMs: number | null;
}

/** What one rank tells all others of its last steps; with `ranks`, every `hashEvery` steps. */
export interface RankTelemetry {
  rank: number;
  /** Whether its page is hidden: browsers slow those down. */
  isHidden: boolean;
  /**
   * Median over the steps since the last exchange: waiting for the left neighbour while nothing
   * else was left to do.
   */
  waitMs: number;
  /** `null` in a world of one. */
  right: EdgeReport | null;
  /**
   * How far its clock is ahead of this rank's, and by how much that may be wrong; `null` until the
   * clocks are compared.
   */
  clock: { offsetMs: number; errorMs: number } | null;
  /** Oldest first; simplified for the wire. */
  lanes: readonly StepLane[];
}

/** One rank's line in everybody's table; exchanged every `hashEvery` steps. */
const RankStatistics = v.object({
  rank,
  /** Medians over the steps since the last exchange, milliseconds. */
  computeMs: number,
  communicateMs: number,
  stepMs: number,
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

/**
 * Why ranks chose a codec: what their first steps took, sending fp32, by the medians of the rank
 * that knows best.
 */
const CodecChoice = v.object({
  codec: v.picklist(CODEC_NAMES),
  /**
   * What a rank does by itself in a step: computing, reading gradients back, updating.
   * Milliseconds.
   */
  ownMs: number,
  /** Communication, and the part of it that nothing else ran beside, milliseconds. */
  communicateMs: number,
  exposedMs: number,
  /** What a rank's line moved, bytes per millisecond. */
  bytesPerMs: number,
  /** What communication was expected to add to a step by each codec, milliseconds. */
  expectedMs: v.object({ fp32: number, fp16: number, int8: number, powersgd: number }),
  /**
   * A strategy worth a try, where ranks communicate for longer than they compute with any codec; it
   * is not chosen by itself.
   */
  suggestion: v.nullable(v.picklist(['local-sgd', 'diloco'])),
});
export type CodecChoice = v.InferOutput<typeof CodecChoice>;

/** Why ranks chose how much a bucket holds. */
const BucketChoice = v.object({
  /** What a bucket may hold. */
  capBytes: count,
  /**
   * What an all-reduce takes beside its bytes, and bytes of gradients that it moves in a
   * millisecond.
   */
  latencyMs: number,
  bytesPerMs: number,
  /**
   * From the first bucket until all are added up, milliseconds: expected with this cap, and with
   * the usual one.
   */
  expectedMs: number,
  usualMs: number,
});
export type BucketChoice = v.InferOutput<typeof BucketChoice>;

/** What a language model wrote as it learned. */
const WrittenSample = v.object({
  /** Steps that it had taken, and the loss of the last. */
  steps: count,
  loss: number,
  /** What it was to continue. */
  prompt: text(MAX_PROMPT),
  text: text(MAX_SAMPLE_LENGTH),
});
export type WrittenSample = v.InferOutput<typeof WrittenSample>;

/** What a range test has found. */
export const RateTest = v.object({
  /** Of every step that had a loss. */
  rates: v.array(number),
  /** Smoothed losses of the same steps. */
  losses: v.array(number),
  /** The rate at which the loss fell steepest; `null`: there is none, for `reason`. */
  suggested: v.nullable(number),
  /** The loss did not fall clearly, or there were too few steps to say so. */
  reason: v.nullable(v.picklist(['flat', 'short'])),
});
export type RateTest = v.InferOutput<typeof RateTest>;

export const RunResultSchema = v.object({
  worldSize,
  strategy: v.picklist(STRATEGY_NAMES),
  /** In use at the end, and where ranks chose it, why. */
  codec: v.picklist(CODEC_NAMES),
  choice: v.optional(CodecChoice),
  bucketChoice: v.optional(BucketChoice),
  ...Device.entries,
  /**
   * Of the links between ring neighbours: `memory` where all are inside one browser, `mixed` where
   * some are. `none` in a world of one, `unknown` in a group, given to a Trainer, whose ranks are
   * not linked in a ring.
   */
  transport: v.picklist(['webrtc', 'memory', 'mixed', 'none', 'unknown']),
  steps: count,
  /** Passes over the training data, whole or begun. */
  epochs: count,
  /** Mean training loss over the last step's samples, all ranks; with a Trainer's regularizers. */
  loss: number,
  /**
   * Share of held-out samples classified right, all ranks' counts together; `null` where none were,
   * or none are classified.
   */
  accuracy: v.nullable(number),
  /**
   * What else the job asks to be told of held-out samples; of amounts, `rmse` in any job that does
   * not say.
   */
  metrics: v.optional(Metrics),
  /** Mean loss over the held-out samples; `null` where there are none. */
  valLoss: v.nullable(number),
  /**
   * In runs that end when they get no better: the lowest such loss, and the steps after which it
   * was.
   */
  best: v.exactOptional(v.object({ step: count, valLoss: number })),
  /** Where few classes are told apart: which was taken for which, over all held-out samples. */
  confusion: v.optional(Confusion),
  /** One per rank, in rank order. */
  stateHash: ofRanks(hash),
  /**
   * Bytes of frames sent for gradients (or parameters, as the strategy has it), one per rank:
   * headers included; start-up, statistics and evaluation not.
   */
  bytesSentPerRank: ofRanks(count),
  /** The same, received. */
  bytesReceivedPerRank: ofRanks(count),
  /** Bytes sent for all else (parameters, hashes, statistics, evaluation), one per rank. */
  otherBytesSentPerRank: ofRanks(count),
  /**
   * Bytes of what one exchange carries of one gradient, as the codec has it; of PowerSGD in its
   * compressed steps.
   */
  gradientBytes: count,
  /** Bytes of tensors at the end, one per rank; on a GPU, of the buffers there. */
  memoryBytesPerRank: ofRanks(count),
  /**
   * Of the job `gpt`: the loss of a bigram model on the held-out text, nats by character as all of
   * its losses; and what it wrote.
   */
  bigramLoss: v.optional(number),
  samples: v.optional(v.array(WrittenSample)),
  stepMs: v.object({ median: number, p95: number, compute: number, communicate: number, exposed: number }),
  /** Mean loss of every step, all ranks' samples together. */
  losses: v.array(number),
  /**
   * Of a run that looks for a learning rate: it tests no held-out samples, and leaves the model as
   * it was.
   */
  rateTest: v.optional(RateTest),
  /** Times that the ranks changed since this one began. */
  restarts: count,
  ms: number,
});
export interface RunResult extends v.InferOutput<typeof RunResultSchema> {}

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
  members: ofRanks(RosterEntry),
  /**
   * Ranks that the order keeps apart, as the link between them was slow; left out where there are
   * none.
   */
  parted: v.optional(v.pipe(ofRanks(v.pipe(v.tuple([rank, rank]), v.readonly())), v.readonly())),
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
  roundTripMs: v.nullable(number),
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
  loss: number,
  samples: count,
  ms: StepTimes,
  /** When the step was applied, milliseconds since the run began. */
  at: number,
});

export const TraceEvent = v.object({ type: v.literal('trace'), ...RecordedTrace.entries });

export const RanksEvent = v.object({ type: v.literal('ranks'), step: count, ranks: ofRanks(RankStatistics) });

export const HashesEvent = v.object({
  type: v.literal('hashes'),
  step: count,
  hashes: ofRanks(hash),
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
  loss: number,
  accuracy: v.nullable(number),
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
export const SampleEvent = v.object({ type: v.literal('sample'), bigramLoss: number, ...WrittenSample.entries });

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

/** A model as a file, of the state after `step` steps. */
export interface ModelFile {
  name: string;
  step: number;
  bytes: Uint8Array<ArrayBuffer>;
}

/** An event that crosses a wire, or may. */
type SharedEvent = v.InferOutput<
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

type RoomMessage = Extract<ServerMessage, { type: 'room' }>;

export type EngineEvent =
  | SharedEvent
  | ({ type: 'state' } & RankStatus)
  /** `note` says in a sentence why this is not WebGPU, when it is not. */
  | { type: 'device'; device: Device; note: string | null }
  /** `hostKey`: whoever shows it to the server when it joins is a host; `null` for guests. */
  | { type: 'admitted'; member: string; room: string; hostKey: string | null }
  /** In place of the one that `admitted` gave, which expires. */
  | { type: 'hostKey'; room: string; hostKey: string }
  /** The room as the server describes it. */
  | Omit<RoomMessage, 'run' | 'generation' | 'removed'>
  | { type: 'warmup'; stage: WarmupStage; message: string }
  /**
   * Files that this tab's user chose, for all ranks: bytes that are read of how many. With the last
   * one they can go round.
   */
  | { type: 'reading'; bytes: number; total: number }
  /** The job's files go round: bytes that each rank has of `total`. */
  | { type: 'file-distribution'; generation: number; total: number; held: readonly number[] }
  /** The room's first run will go on from a checkpoint of this tab's, after `step` steps. */
  | { type: 'checkpoint'; step: number }
  /** The room's first run will begin with the weights of this tab's file `file`. */
  | { type: 'weights'; file: string }
  /** The state after `step` steps was saved in this browser. */
  | { type: 'saved'; step: number }
  /** Something to know that stops nothing, in a sentence. */
  | { type: 'note'; message: string }
  /** Held-out samples are tested after a step: this rank has done so many of its share. */
  | { type: 'testing'; step: number; done: number; share: number }
  /** A step is about to be taken. `samples` as in what `step` will tell. */
  | { type: 'begin'; step: number; epoch: number; samples: number }
  /** How this rank spent a step, exactly. */
  | { type: 'segments'; lane: StepLane }
  | { type: 'telemetry'; step: number; ranks: RankTelemetry[] }
  /**
   * What this tab's files hold, or what is wrong with them or with what the job asks of them: told
   * when files come, and when the job changes. Both `null`: they are being read.
   */
  | { type: 'preview'; preview: Preview | null; problem: string | null }
  /**
   * What the flight recorder of the latest run holds, `null` before the first run: the answer to
   * the command `recording`, and told by itself ahead of a fatal failure, after which nobody is
   * there to answer.
   */
  | { type: 'recording'; recording: FlightRecording | null }
  /**
   * The answers to the commands `predict`, with its `id`, and `examine`, by this rank's own copy of
   * the model. `null` where there is none: before the first run, where this tab only watches, or
   * where the GPU was lost with it.
   */
  | { type: 'prediction'; id: number; answer: { probabilities: number[]; steps: number } | null }
  | { type: 'learned'; learned: Learned | null }
  /** The answer to the command `write`, as `prediction` is to `predict`. */
  | { type: 'written'; id: number; answer: { text: string; steps: number } | null }
  /** The answer to the command `export`, with its `id`: a file, or why there is none. */
  | { type: 'exported'; id: number; file: ModelFile | null; problem: string | null }
  /** The run is over for this rank; `fatal`: so is the connection to the room. */
  | { type: 'failed'; name: string; message: string; fatal: boolean };

/**
 * What a page may ask of its engine. `rank`: the one that this tab wants. `watches`: it never
 * trains. `resume`: the id of the checkpoint in this browser to go on from. `origin`: a file to go
 * on from, or to begin with: a checkpoint's, or weights.
 */
export type EngineCommand =
  | {
      type: 'create';
      server: string;
      name: string;
      rank?: number;
      isSpectator?: boolean;
      job: JobSpec;
      startAt: number | null;
      resume?: string;
      origin?: File;
    }
  | {
      type: 'join';
      server: string;
      name: string;
      rank?: number;
      isSpectator?: boolean;
      room: string;
      hostKey?: string;
      origin?: File;
    }
  | { type: 'configure'; job: JobSpec }
  | { type: 'start' }
  /** Hosts only: holds the run between two steps, and lets it go on. */
  | { type: 'pause' }
  | { type: 'resume' }
  /** Hosts only: ends the run; sends a member out; lets nobody in any more. */
  | { type: 'stop' }
  | { type: 'remove'; member: string }
  | { type: 'lock'; isLocked: boolean }
  /**
   * Files the user picked, for jobs with data of kind `files`; of kind `spread` they are to go
   * round. A file from a folder is named with it, `cats/1.png`.
   */
  | { type: 'files'; files: File[] }
  /** In a lesson. Of a tab that does not lead it, only edits of its own numbers count. */
  | { type: 'lesson'; order: LessonOrder }
  /** Whether this page is hidden, for the others to know. */
  | { type: 'visibility'; isHidden: boolean }
  /** Asks for what the flight recorder holds. */
  | { type: 'recording' }
  /**
   * Asks the model, also after its run, what an image shows: IMAGE_SIDE x IMAGE_SIDE pixels, row by
   * row, 0 .. 1 (ink).
   */
  | { type: 'predict'; id: number; pixels: Float32Array }
  /** Asks for what the model has learned. */
  | { type: 'examine' }
  /**
   * Asks a language model to write on, also after its run; `temperature` is 0 for the likeliest, 1
   * as the model has it.
   */
  | { type: 'write'; id: number; prompt: string; temperature: number }
  /**
   * Asks for the model as a file, also after its run; for a checkpoint while it is on. `best`: as
   * it was when it tested best, where this tab has kept that; a run that has no {@link
   * JobSpec.patience}, or that this tab came to later, has not.
   */
  | { type: 'export'; id: number; format: ModelFormat; which: ModelVersion }
  /**
   * From now on the run waits after every comparison of ranks for `release`, so that no more than
   * what lies between two can be lost.
   */
  | { type: 'hold' }
  /** What the run was after `step` is kept. */
  | { type: 'release'; step: number }
  | { type: 'leave' };
