/**
 * The events that one rank emits: the only view of the engine that the pages, the launcher and the
 * tests have. Every picture and number on the screen derives from these events. They are plain
 * data, structured-clone-able and JSON-able (times in milliseconds of this rank's clock, sizes in
 * bytes).
 */
import type { Device } from './room.ts';
import type { ServerMessage } from './control.ts';
import type { FlightRecording } from './flightRecording.ts';
import type { LinkRoute, RunEvent } from './runEvents.ts';
import type { StepLane } from './stepTrace.ts';
import type { ModelInspection } from '../spec/inspection.ts';
import type { Preview } from '../spec/preview.ts';

/** The client side of membership; docs/ARCHITECTURE.md draws it. */
export type RankState = 'OFFLINE' | 'WAITING' | 'LINKING' | 'SYNCING' | 'RUNNING';

/** The status of a rank. */
export interface RankStatus {
  state: RankState;
  /** Membership generation that `state` is about. */
  generation: number;
  /** The same as a sentence, for logs. */
  detail: string;
  /** The connection to the signaling server is lost and being restored. */
  isServerAway: boolean;
  /**
   * Neighbours that it connects to, by their ranks in the generation to come, and whether over a
   * relay only.
   */
  connecting: readonly { rank: number; isRelayed: boolean }[];
}

/** Stages of the preparation before a first step. */
export type WarmupStage = 'generating' | 'data' | 'compiling' | 'recovering';

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
/** A model as a file, of the state after `step` steps. */
export interface ModelFile {
  name: string;
  step: number;
  bytes: Uint8Array<ArrayBuffer>;
}
type RoomMessage = Extract<ServerMessage, { type: 'room' }>;

export type EngineEvent =
  | RunEvent
  | ({ type: 'state' } & RankStatus)
  /** `note` says in a sentence why this is not WebGPU, when it is not. */
  | { type: 'device'; device: Device; note: string | null }
  /** `hostKey` makes a member that joins with it a host; `null` for guests. */
  | { type: 'admitted'; member: string; room: string; hostKey: string | null }
  /** Replaces the key from `admitted`, which expires. */
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
  /** A hint as a sentence; the run continues. */
  | { type: 'note'; message: string }
  /** Held-out samples are tested after a step: this rank has done so many of its share. */
  | { type: 'testing'; step: number; done: number; share: number }
  /** A step is about to be taken. `samples` as in what `step` will tell. */
  | { type: 'begin'; step: number; epoch: number; samples: number }
  /** How this rank spent a step, exactly. */
  | { type: 'segments'; lane: StepLane }
  | { type: 'telemetry'; step: number; ranks: RankTelemetry[] }
  /**
   * The preview of this tab's files, or the problem with them or with the job's fields for them;
   * emitted when the files or the job change. Both are `null` while the files are being read.
   */
  | { type: 'preview'; preview: Preview | null; problem: string | null }
  /**
   * What the flight recorder of the latest run holds, `null` before the first run: the answer to
   * the command `recording`, and told by itself ahead of a fatal failure, after which nobody is
   * there to answer.
   */
  | { type: 'recording'; recording: FlightRecording | null }
  /**
   * The answers to the commands `predict`, with its `id`, and `inspect`, from this rank's own copy
   * of the model. `null` without a model: before the first run, in a spectator, or after the GPU
   * was lost.
   */
  | { type: 'prediction'; id: number; answer: { probabilities: number[]; steps: number } | null }
  | { type: 'inspection'; inspection: ModelInspection | null }
  /** The answer to the command `generate`, as `prediction` is to `predict`. */
  | { type: 'generated'; id: number; answer: { text: string; steps: number } | null }
  /**
   * The answer to the command `export`, with its `id`: a file, or the problem that prevented it.
   */
  | { type: 'exported'; id: number; file: ModelFile | null; problem: string | null }
  /** The run is over for this rank; `fatal`: so is the connection to the room. */
  | { type: 'failed'; name: string; message: string; fatal: boolean };
