/**
 * What one rank tells about its life: the only thing the pages, the launcher and the tests see of the engine. Every
 * picture and number on the screen derives from these events. Plain data, structured-clone-able and JSON-able
 * (times in milliseconds of this rank's clock, sizes in bytes).
 */
import type { Confusion } from './confusion.ts';
import type { Device, Nodes, RosterEntry, RoomPhase, Spectator } from './control.ts';
import type { FlightRecording } from './flightRecording.ts';
import type { JobCodec, JobSpec, StrategyName } from './job.ts';
import type { Learned } from './learned.ts';
import type { LessonOrder, LessonState } from './lesson.ts';
import type { Metrics } from './measures.ts';
import type { Preview } from './preview.ts';
import type { ModelFormat } from './modelFile.ts';

/** The client side of membership; docs/ARCHITECTURE.md draws it. */
export type RankState = 'OFFLINE' | 'WAITING' | 'LINKING' | 'SYNCING' | 'RUNNING';

/** Where a rank stands. */
export interface RankStatus {
  state: RankState;
  /** Membership epoch that `state` is about. */
  epoch: number;
  /** The same in a sentence, for logs. */
  detail: string;
  /** The connection to the signaling server is lost, and being made anew. */
  isServerAway: boolean;
  /** Neighbours that it connects to, by their ranks in the epoch to come, and whether over a relay only. */
  connecting: readonly { rank: number; isRelayed: boolean }[];
}

/** What is got ready before a first step. */
export type WarmupStage = 'drawing' | 'data' | 'compiling' | 'recovering';

/** One ring step of an all-reduce as this rank saw it: a chunk sent, another received. */
export interface HopEvent {
  /** 0 .. 2(n-1)-1: the ring plan's step. */
  ringStep: number;
  /** Chunk that this rank sent to its right neighbour in that ring step. */
  sentChunk: number;
  /** Chunk that this rank received from its left neighbour in that ring step. */
  receivedChunk: number;
  /** When the last byte of the chunk had been handed to the link; `null` if nothing was sent. */
  sentAt: number | null;
  /** When the last byte had arrived (and, in reduce-scatter, had been summed). */
  receivedAt: number | null;
  /** Milliseconds of adding up or copying what arrived, within `receivedAt`; left out where nobody measured it. */
  reduceMs?: number;
}

/** Times of one optimizer step, milliseconds. */
export interface StepTimes {
  total: number;
  /** Forward and backward on the GPU, until the first bucket's gradients could be read. */
  compute: number;
  /** Reading gradients back, summed over buckets, the wait for compute excluded. */
  readback: number;
  /** From the first all-reduce issued to the last one done. */
  communicate: number;
  /** The part of `communicate` that nothing else ran beside. */
  exposed: number;
  /** Optimizer and upload of the parameters. */
  update: number;
}

/**
 * What a rank does in a step. On its own: `compute` until gradients can be read, `readback` of them, `update` of the parameters.
 * With others, beside the former: `send` a chunk, `wait` for the left neighbour's, `reduce` it; or `exchange` what goes no ring.
 */
export const SEGMENT_KINDS = ['compute', 'readback', 'update', 'send', 'wait', 'reduce', 'exchange'] as const;
export type SegmentKind = (typeof SEGMENT_KINDS)[number];

/** A stretch of a step, milliseconds since the step began. */
export interface Segment {
  kind: SegmentKind;
  start: number;
  end: number;
}

/** One step as one rank spent it. */
export interface StepLane {
  step: number;
  /** On that rank's clock. */
  startedAt: number;
  duration: number;
  /** In order of their start. What a rank does alone and what it does with others may overlap. */
  segments: Segment[];
}

/** The link to a rank's right neighbour; bytes since the links of this epoch were made. */
export interface EdgeReport {
  route: LinkRoute;
  roundTripMs: number | null;
  bytesSent: number;
  bytesReceived: number;
  /** Mean time of a chunk of the second round (all-gather) from hand to hand; `null` until the clocks are compared. */
  transitMs: number | null;
}

/** What one rank tells all others of its last steps; with `ranks`, every `hashEvery` steps. */
export interface RankTelemetry {
  rank: number;
  /** Whether its page is hidden: browsers slow those down. */
  isHidden: boolean;
  /** Median over the steps since the last exchange: waiting for the left neighbour while nothing else was left to do. */
  waitMs: number;
  /** `null` in a world of one. */
  right: EdgeReport | null;
  /** How far its clock is ahead of this rank's, and by how much that may be wrong; `null` until the clocks are compared. */
  clock: { offsetMs: number; errorMs: number } | null;
  /** Oldest first; simplified for the wire. */
  lanes: readonly StepLane[];
}

/** One rank's line in everybody's table; exchanged every `hashEvery` steps. */
export interface RankStatistics {
  rank: number;
  /** Medians over the steps since the last exchange, milliseconds. */
  computeMs: number;
  communicateMs: number;
  stepMs: number;
  /** Bytes of frames sent since the run began: for gradients, for all else. */
  gradientBytesSent: number;
  otherBytesSent: number;
  /** Bytes of gradients' frames received. */
  gradientBytesReceived: number;
  /** Bytes of its tensors; on a GPU, of the buffers there. */
  memoryBytes: number;
}

/** How bytes reach a neighbour: `direct` and `relayed` (TURN) over the network, `memory` inside one browser. */
export type LinkRoute = 'direct' | 'relayed' | 'memory' | 'unknown';

/** Why ranks chose a codec: what their first steps took, sending fp32, by the medians of the rank that knows best. */
export interface CodecChoice {
  codec: JobCodec;
  /** What a rank does by itself in a step; communication; the part of that which nothing else ran beside. Milliseconds. */
  ownMs: number;
  communicateMs: number;
  exposedMs: number;
  /** What a rank's line moved, bytes per millisecond. */
  bytesPerMs: number;
  /** What communication was expected to add to a step by each codec, milliseconds. */
  expectedMs: Record<JobCodec, number>;
  /** A strategy worth a try, where ranks talk for longer than they compute all the same. */
  suggestion: 'local-sgd' | 'diloco' | null;
}

/**
 * Why ranks chose how much a bucket holds: what an all-reduce takes beside its bytes, and bytes of gradients that it moves in a
 * millisecond; and from the first bucket on until all are added up, what was expected by this cap and by the usual one, milliseconds.
 */
export interface BucketChoice {
  capBytes: number;
  latencyMs: number;
  bytesPerMs: number;
  expectedMs: number;
  usualMs: number;
}

/** What a language model wrote as it learned. */
export interface WrittenSample {
  /** Steps that it had taken, and the loss of the last. */
  steps: number;
  loss: number;
  /** What it was to continue. */
  prompt: string;
  text: string;
}

/** What a range test has found. */
export interface RateTest {
  /** Of every step that had a loss. */
  rates: number[];
  /** Smoothed losses of the same steps. */
  losses: number[];
  /** The rate at which the loss fell steepest; `null`: there is none, for `reason`. */
  suggested: number | null;
  /** The loss did not fall clearly, or there were too few steps to say so. */
  reason: 'flat' | 'short' | null;
}

export interface RunResult {
  worldSize: number;
  strategy: StrategyName;
  /** In use at the end, and where ranks chose it, why. */
  codec: JobCodec;
  choice?: CodecChoice | undefined;
  bucketChoice?: BucketChoice | undefined;
  backend: Device['backend'];
  adapter: string;
  /**
   * Of the links between ring neighbours: `memory` where all are inside one browser, `mixed` where some are. `none` in a world of one,
   * `unknown` in a group, given to a Trainer, whose ranks are not linked in a ring.
   */
  transport: 'webrtc' | 'memory' | 'mixed' | 'none' | 'unknown';
  steps: number;
  /** Passes over the training data, whole or begun. */
  epochs: number;
  /** Mean training loss over the last step's samples, all ranks; with a Trainer's regularizers. */
  loss: number;
  /**
   * Share of held-out samples classified right, all ranks' counts together; `null` where none were, or none are
   * classified.
   */
  accuracy: number | null;
  /** What else the job asks to be told of held-out samples; of amounts, `rmse` in any job that does not say. */
  metrics?: Metrics | undefined;
  /** Mean loss over the held-out samples; `null` where there are none. */
  valLoss: number | null;
  /** In runs that end when they get no better: the lowest such loss, and the steps after which it was. */
  best?: { step: number; valLoss: number };
  /** Where few classes are told apart: which was taken for which, over all held-out samples. */
  confusion?: Confusion | undefined;
  /** One per rank, in rank order. */
  stateHash: string[];
  /**
   * Bytes of frames sent for gradients (or parameters, as the strategy has it), one per rank: headers included;
   * start-up, statistics and evaluation not.
   */
  bytesSentPerRank: number[];
  /** The same, received. */
  bytesReceivedPerRank: number[];
  /** Bytes sent for all else (parameters, hashes, statistics, evaluation), one per rank. */
  otherBytesSentPerRank: number[];
  /** Bytes of what one exchange carries of one gradient, as the codec has it; of PowerSGD in its compressed steps. */
  gradientBytes: number;
  /** Bytes of tensors at the end, one per rank; on a GPU, of the buffers there. */
  memoryBytesPerRank: number[];
  /** Of the job `gpt`: the loss of a bigram model on the held-out text, nats by character as all of its losses; and what it wrote. */
  bigramLoss?: number | undefined;
  samples?: WrittenSample[] | undefined;
  stepMs: { median: number; p95: number; compute: number; communicate: number; exposed: number };
  /** Mean loss of every step, all ranks' samples together. */
  losses: number[];
  /** Of a run that looks for a learning rate: it tests no held-out samples, and leaves the model as it was. */
  rateTest?: RateTest | undefined;
  /** Times that the ranks changed since this one began. */
  restarts: number;
  ms: number;
}

/** A model as a file, of the state after `step` steps. */
export interface ModelFile {
  name: string;
  step: number;
  bytes: Uint8Array<ArrayBuffer>;
}

export type EngineEvent =
  | ({ type: 'state' } & RankStatus)
  /** `note` says in a sentence why this is not WebGPU, when it is not. */
  | { type: 'device'; device: Device; note: string | null }
  /** `hostKey`: whoever shows it to the server when it joins is a host; `null` for guests. */
  | { type: 'admitted'; member: string; room: string; hostKey: string | null }
  /** In place of the one that `admitted` gave, which expires. */
  | { type: 'hostKey'; room: string; hostKey: string }
  | {
      type: 'room';
      phase: RoomPhase;
      /** Members that may control the room. */
      hosts: string[];
      members: RosterEntry[];
      /** Who only watches; this tab may be one of them. */
      spectators: Spectator[];
      job: JobSpec;
      startAt: number | null;
      /** How many ranks a run may have, where ranks may come and go at all. */
      nodes: Nodes | null;
      isLocked: boolean;
      /** The host has paused the run: the room is PAUSED until it lets it go on. */
      isHeld: boolean;
      /** Ready members that are missing for a run to begin by itself, or to go on. */
      waitingFor: number;
    }
  /** To a tab that watches, this and all that follows of the run comes from `rank`. */
  | {
      type: 'epoch';
      epoch: number;
      /** Epochs of one run share its number. */
      run: number;
      rank: number;
      worldSize: number;
      /** Which of its browser's tabs in this epoch this rank is, and of how many. */
      localRank: number;
      localWorldSize: number;
      /** In ring order: index is rank. */
      members: RosterEntry[];
      /** Ranks that the order keeps apart, as the link between them was slow; left out where there are none. */
      parted?: readonly (readonly [number, number])[] | undefined;
      job: JobSpec;
    }
  /** The model is built and checked; sizes are known. Told anew with `bucketChoice` where ranks have chosen how to cut buckets. */
  | {
      type: 'model';
      parameters: number;
      gradientBytes: number;
      bucketBytes: number[];
      bucketChoice?: BucketChoice | undefined;
      totalSteps: number;
      trainSamples: number;
      testSamples: number;
    }
  /** A link of this rank came up or went down. */
  | { type: 'link'; peerRank: number; up: boolean; route: LinkRoute; roundTripMs: number | null }
  | { type: 'warmup'; stage: WarmupStage; message: string }
  /** Files that this tab's user chose, for all ranks: bytes that are read of how many. With the last one they can go round. */
  | { type: 'reading'; bytes: number; total: number }
  /** The job's files go round: bytes that each rank has of `total`. */
  | { type: 'spread'; epoch: number; total: number; held: readonly number[] }
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
  | { type: 'begin'; step: number; dataEpoch: number; samples: number }
  | {
      type: 'step';
      step: number;
      /** Pass over the data this step belongs to, from 0, and samples of the pass that were done before it. */
      dataEpoch: number;
      offset: number;
      /** Mean loss over this step's samples: of all ranks, or of this one where ranks learn by themselves. */
      loss: number;
      samples: number;
      ms: StepTimes;
      /** When the step was applied, milliseconds since the run began. */
      at: number;
    }
  /** How one bucket of one step went round the ring, seen from here. */
  | { type: 'trace'; step: number; bucket: number; bytes: number; startedAt: number; hops: HopEvent[] }
  /** How this rank spent a step, exactly. */
  | { type: 'segments'; lane: StepLane }
  | { type: 'ranks'; step: number; ranks: RankStatistics[] }
  | { type: 'telemetry'; step: number; ranks: RankTelemetry[] }
  | { type: 'hashes'; step: number; hashes: string[]; agree: boolean }
  /** From this step on gradients travel by another codec: the job left the choice to the ranks. */
  | { type: 'codec'; step: number; choice: CodecChoice }
  /**
   * Held-out samples were tested, after `step`: their mean loss, and the share classified right, `null` where nothing
   * is classified; and what else the job asks for.
   */
  | {
      type: 'evaluation';
      step: number;
      loss: number;
      accuracy: number | null;
      metrics?: Metrics | undefined;
      samples: number;
    }
  /** All held-out samples were tested, after `step`, and few classes are told apart: which was taken for which. */
  | ({ type: 'confusion'; step: number } & Confusion)
  /**
   * What this tab's files hold, or what is wrong with them or with what the job asks of them: told when files come, and when the job
   * changes. Both `null`: they are being read.
   */
  | { type: 'preview'; preview: Preview | null; problem: string | null }
  /**
   * What the flight recorder of the latest run holds, `null` before the first run: the answer to the command
   * `recording`, and told by itself ahead of a fatal failure, after which nobody is there to answer.
   */
  | { type: 'recording'; recording: FlightRecording | null }
  /**
   * The answers to the commands `predict`, with its `id`, and `examine`, by this rank's own copy of the model. `null` where there is
   * none: before the first run, where this tab only watches, or where the GPU was lost with it.
   */
  | { type: 'prediction'; id: number; answer: { probabilities: number[]; steps: number } | null }
  | { type: 'learned'; learned: Learned | null }
  /** Of the job `gpt`, now and then: what this rank's copy of the model writes; see {@link RunResult.bigramLoss}. */
  | ({ type: 'sample'; bigramLoss: number } & WrittenSample)
  /** The answer to the command `write`, as `prediction` is to `predict`. */
  | { type: 'written'; id: number; answer: { text: string; steps: number } | null }
  /** The answer to the command `export`, with its `id`: a file, or why there is none. */
  | { type: 'exported'; id: number; file: ModelFile | null; problem: string | null }
  /**
   * Of a lesson: what all its ranks hold now. `waitsFor`: the rank whose numbers this one waits for in a step; `isMoving`: steps are
   * being taken.
   */
  | { type: 'lesson'; state: LessonState; waitsFor: number | null; isMoving: boolean }
  | { type: 'finished'; result: RunResult }
  /** The run is over for this rank; `fatal`: so is the connection to the room. */
  | { type: 'failed'; name: string; message: string; fatal: boolean };

/**
 * What a page may ask of its engine. `rank`: the one that this tab wants. `watches`: it never trains. `resume`: the id of the
 * checkpoint in this browser to go on from. `origin`: a file to go on from, or to begin with: a checkpoint's, or weights.
 */
export type EngineCommand =
  | {
      type: 'create';
      server: string;
      name: string;
      rank?: number;
      watches?: boolean;
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
      watches?: boolean;
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
   * Files the user picked, for jobs with data of kind `files`; of kind `spread` they are to go round. A file from a folder is named with
   * it, `cats/1.png`.
   */
  | { type: 'files'; files: File[] }
  /** In a lesson. Of a tab that does not lead it, only edits of its own numbers count. */
  | { type: 'lesson'; order: LessonOrder }
  /** Whether this page is hidden, for the others to know. */
  | { type: 'visibility'; isHidden: boolean }
  /** Asks for what the flight recorder holds. */
  | { type: 'recording' }
  /** Asks the model, also after its run, what an image shows: IMAGE_SIDE x IMAGE_SIDE pixels, row by row, 0 .. 1 (ink). */
  | { type: 'predict'; id: number; pixels: Float32Array }
  /** Asks for what the model has learned. */
  | { type: 'examine' }
  /** Asks a language model to write on, also after its run; `temperature` is 0 for the likeliest, 1 as the model has it. */
  | { type: 'write'; id: number; prompt: string; temperature: number }
  /**
   * Asks for the model as a file, also after its run; for a checkpoint while it is on. `best`: as it was when it tested best, where this
   * tab has kept that; a run that has no {@link JobSpec.patience}, or that this tab came to later, has not.
   */
  | { type: 'export'; id: number; format: ModelFormat; which: 'last' | 'best' }
  /** From now on the run waits after every comparison of ranks for `release`, so that no more than what lies between two can be lost. */
  | { type: 'hold' }
  /** What the run was after `step` is kept. */
  | { type: 'release'; step: number }
  | { type: 'leave' };
