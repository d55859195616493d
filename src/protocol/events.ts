/**
 * The events that one rank emits: the only view of the engine that the pages, the launcher and the
 * tests have. They are plain data for structured clone and JSON. Times are milliseconds of this
 * rank's clock, sizes are bytes.
 */
import type { Device } from './room.ts';
import type { ServerMessage } from './control.ts';
import type { FlightRecording } from './flightRecording.ts';
import type { LinkRoute, RunEvent } from './runEvents.ts';
import type { StepLane } from './stepTrace.ts';
import type { ModelInspection } from '../spec/inspection.ts';
import type { Preview } from '../spec/preview.ts';

/** States of the client's membership; docs/ARCHITECTURE.md describes them. */
export type RankState = 'OFFLINE' | 'WAITING' | 'LINKING' | 'SYNCING' | 'RUNNING';

/** The status of a rank. */
export interface RankStatus {
  state: RankState;
  /** The generation that `state` is about. */
  generation: number;
  /** The same as a sentence, for logs. */
  detail: string;
  /** Whether the connection to the signaling server is lost and being restored. */
  isServerAway: boolean;
  /**
   * Neighbours that it connects to, by their ranks in the next generation; `isRelayed`: over a
   * relay only.
   */
  connecting: readonly { rank: number; isRelayed: boolean }[];
}

/** Stages of the preparation before a first step. */
export type WarmupStage = 'generating' | 'data' | 'compiling' | 'recovering';

/**
 * The link to a rank's right neighbour. Bytes are counted since this generation's links were
 * opened.
 */
export interface EdgeReport {
  route: LinkRoute;
  roundTripMs: number | null;
  bytesSent: number;
  bytesReceived: number;
  /**
   * Mean time of a chunk of the second round (all-gather) between the two ranks; `null` until
   * clocks are compared.
   */
  transitMs: number | null;
}

/**
 * Report of each rank to all others about its latest steps; emitted with `ranks`, every
 * `hashEvery` steps.
 */
export interface RankTelemetry {
  rank: number;
  /** Whether its page is hidden: browsers slow hidden pages down. */
  isHidden: boolean;
  /**
   * Median over the steps since the last exchange: time of waiting for the left neighbour with
   * nothing else to do.
   */
  waitMs: number;
  /** `null` in a world of one rank. */
  right: EdgeReport | null;
  /**
   * The offset of its clock to this rank's, with the maximum error; `null` until clocks are
   * compared.
   */
  clock: { offsetMs: number; errorMs: number } | null;
  /** The oldest first; simplified for sending. */
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
  /** `note` is a sentence that explains why the device is not WebGPU; `null` for WebGPU. */
  | { type: 'device'; device: Device; note: string | null }
  /** `hostKey` makes a member that joins with it a host; `null` for guests. */
  | { type: 'admitted'; member: string; room: string; hostKey: string | null }
  /** Replaces the key from `admitted`, which expires. */
  | { type: 'hostKey'; room: string; hostKey: string }
  /** The room as the server describes it. */
  | Omit<RoomMessage, 'run' | 'generation' | 'removed'>
  | { type: 'warmup'; stage: WarmupStage; message: string }
  /**
   * Progress of reading the files that this tab's user chose for all ranks, in bytes. Distribution
   * begins when all are read.
   */
  | { type: 'reading'; bytes: number; total: number }
  /** Ranks distribute the job's files: bytes of `total` that each rank has. */
  | { type: 'file-distribution'; generation: number; total: number; bytesPerRank: readonly number[] }
  /** The room's first run will resume from this tab's checkpoint after `step` steps. */
  | { type: 'checkpoint'; step: number }
  /** The room's first run will begin with the weights of this tab's file `file`. */
  | { type: 'weights'; file: string }
  /** The state after `step` steps was saved in this browser. */
  | { type: 'saved'; step: number }
  /** A hint as a sentence; the run continues. */
  | { type: 'note'; message: string }
  /**
   * Progress of a test of held-out samples after a step: samples of this rank's share that are
   * done.
   */
  | { type: 'testing'; step: number; done: number; share: number }
  /** A step begins. `samples` as in its `step` event. */
  | { type: 'begin'; step: number; epoch: number; samples: number }
  /** How this rank spent a step. */
  | { type: 'segments'; lane: StepLane }
  | { type: 'telemetry'; step: number; ranks: RankTelemetry[] }
  /**
   * The preview of this tab's files, or the problem with them or with the job's fields for them;
   * emitted when the files or the job change. Both are `null` while the files are being read.
   */
  | { type: 'preview'; preview: Preview | null; problem: string | null }
  /**
   * The flight recording of the latest run; `null` before the first. Answers the command
   * `recording`. Also emitted before a fatal failure, after which commands are not answered.
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
  /** The run is over for this rank; `fatal`: the connection to the room, too. */
  | { type: 'failed'; name: string; message: string; fatal: boolean };
