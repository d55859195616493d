/**
 * The events that one rank emits. Pages, the launcher and tests see the engine only through them.
 * Events are plain data for structured clone and JSON. Times are milliseconds of this rank's clock,
 * sizes are bytes.
 */
import type { ReportedDevice } from './room.ts';
import type { ServerMessage } from './control.ts';
import type { FlightRecording } from './flightRecording.ts';
import type { NoticeMessage } from './notices.ts';
import type { LinkRoute, RunEvent } from './runEvents.ts';
import type { StepLane } from './stepTrace.ts';
import type { ModelInspection } from '../spec/inspection.ts';
import type { DataNote, DataPreview } from '../spec/preview.ts';

/** States of a rank. `engine/membership/rankState.ts` derives them. */
export type RankState = 'OFFLINE' | 'WAITING' | 'LINKING' | 'SYNCING' | 'RUNNING';

/** The status of a rank. */
export interface RankStatus {
  state: RankState;
  /** The generation to which `state` refers. */
  generation: number;
  /** The status as a sentence, for logs. */
  detail: string;
  /** Whether the connection to the signaling server is lost and being restored. */
  isServerAway: boolean;
  /**
   * Neighbours to which this rank is connecting. `rank` is the neighbour's rank in the next
   * generation. `isRelayed` means that the connection uses a TURN relay.
   */
  connecting: readonly { rank: number; isRelayed: boolean }[];
}

/** Stages of the preparation before a first step. */
export type WarmupStage = 'generating' | 'data' | 'compiling' | 'layers' | 'recovering' | 'receiving';

/** How many of the `total` shaders of the model are compiled. */
export interface ShaderProgress {
  compiled: number;
  total: number;
}

/** How much of the run's state a newcomer has received while the others train. Sizes in bytes. */
export interface StateReceiveProgress {
  bytes: number;
  total: number;
  /** Bytes in a second; `null` if not known yet. */
  rate: number | null;
  /**
   * The number of steps by which the run is ahead of the newcomer's state; `null` if the newcomer
   * has no state yet.
   */
  behind: number | null;
  /**
   * If the line is too slow for the run's updates: the milliseconds after which the newcomer takes
   * part. Otherwise `null`.
   */
  waitsMs: number | null;
}

/** Progress of loading data: bytes that have arrived, then bytes of a table that are read. */
export interface LoadProgress {
  unit: 'bytes' | 'bytes read';
  done: number;
  total: number;
  /** Bytes in a second; missing if not known. */
  rate?: number;
}

/**
 * The link to a rank's right neighbour. Bytes are counted since this generation's links were
 * opened.
 */
export interface RightLinkReport {
  route: LinkRoute;
  roundTripMs: number | null;
  /** Number of WebRTC connections over which the link distributes frames. */
  connections: number;
  bytesSent: number;
  bytesReceived: number;
  /**
   * Mean time in milliseconds between the sending and the receipt of a chunk in the all-gather
   * phase; `null` if the two ranks have not timed such a chunk since the previous exchange.
   */
  transitMs: number | null;
}

/**
 * A rank's report about its latest steps. Every rank sends its report to all others every
 * `hashEvery` steps; the event `telemetry` contains the reports.
 */
export interface RankTelemetry {
  rank: number;
  /** Whether the rank's page is hidden. Browsers slow down hidden pages. */
  isHidden: boolean;
  /**
   * How long the rank waits for its left neighbour in a step without doing other work, in
   * milliseconds: the median over the steps since the previous exchange.
   */
  waitMs: number;
  /** The link to the right neighbour; `null` in a world of one rank. */
  right: RightLinkReport | null;
  /**
   * How far the reporting rank's clock is ahead of this rank's clock, with the maximum error;
   * `null` until the clocks are compared.
   */
  clock: { offsetMs: number; errorMs: number } | null;
  /** Timelines of the latest steps, the oldest first, with less detail than the rank's own. */
  lanes: readonly StepLane[];
}
/** A file with the model, or with the whole training state, after `step` steps. */
export interface ModelFile {
  name: string;
  step: number;
  /** The browser may keep the content in a file, so that its bytes are not in memory. */
  content: Blob;
}
type RoomMessage = Extract<ServerMessage, { type: 'room' }>;

export type EngineEvent =
  | RunEvent
  | ({ type: 'state' } & RankStatus)
  /** `note` is a sentence that explains why the device is not WebGPU; `null` for WebGPU. */
  | { type: 'device'; device: ReportedDevice; note: string | null }
  /** Members that join with `hostKey` are hosts too. `null` if this member is not a host. */
  | { type: 'admitted'; member: string; room: string; hostKey: string | null }
  /** Replaces the host key from `admitted`, because that key expires. */
  | { type: 'hostKey'; room: string; hostKey: string }
  /** The room as the server describes it. */
  | Omit<RoomMessage, 'run' | 'generation' | 'hasTrained' | 'removed'>
  /**
   * While shaders are compiled, `shaders` has the number of compiled shaders and of all shaders.
   * `received` belongs to the stage `receiving`. `loading` is the progress of the stage `data`, at
   * most once a second.
   */
  | {
      type: 'warmup';
      stage: WarmupStage;
      message: string;
      shaders?: ShaderProgress;
      received?: StateReceiveProgress;
      loading?: LoadProgress;
    }
  /**
   * Progress, in bytes, of reading the files that this tab's user chose for all ranks. The
   * distribution begins when all files are read.
   */
  | { type: 'reading'; bytes: number; total: number }
  /**
   * How many of the `total` bytes each rank has: bytes of the job's files, which are distributed to
   * all ranks, also while the run trains; or of the state, which ranks that lack it receive.
   */
  | {
      type: 'distribution';
      what: 'files' | 'state';
      generation: number;
      total: number;
      bytesPerRank: readonly number[];
    }
  /**
   * The room's first run will resume from this tab's checkpoint, which was saved after `step`
   * steps.
   */
  | { type: 'checkpoint'; step: number }
  /**
   * The room's first run will begin with the weights of this tab's file `file`. The notes say which
   * of its arrays are left out or rounded.
   */
  | { type: 'weights'; file: string; notes: readonly DataNote[] }
  /** The state after `step` steps was saved in this browser. */
  | { type: 'saved'; step: number }
  /** A hint for the user, as a sentence. The run continues. */
  | ({ type: 'note' } & NoticeMessage)
  /**
   * A sign that this tab's engine still computes or loads, within the time limit of its task.
   * Meanwhile the engine may emit no other event.
   */
  | { type: 'working'; task: string; ms: number }
  /** The run continues without this rank for a while. `message` says why. */
  | ({ type: 'suspended' } & NoticeMessage)
  /**
   * Progress of an evaluation on held-out samples after a step. This rank has evaluated `done` of
   * its `share` samples.
   */
  | { type: 'testing'; step: number; done: number; share: number }
  /** A step begins. `samples` has the same value as in the step's `step` event. */
  | { type: 'begin'; step: number; epoch: number; samples: number }
  /** A pass of a long step with a pipeline has ended, at most once a second. */
  | { type: 'pass'; step: number }
  /** How this rank spent a step. */
  | { type: 'segments'; lane: StepLane }
  | { type: 'telemetry'; step: number; ranks: RankTelemetry[] }
  /**
   * Progress of reading this tab's files for their preview, each percent at most once. A `preview`
   * event follows.
   */
  | { type: 'opening'; loading: LoadProgress }
  /**
   * The preview of this tab's files, or what is wrong with the files or with the job's fields for
   * them. Emitted when the files or the job change. `preview` and `problem` are both `null` while
   * the files are being read.
   */
  | { type: 'preview'; preview: DataPreview | null; problem: string | null }
  /**
   * The answer to the command `recording`: the flight recording of the latest run, or `null` before
   * the first run. It is also emitted before a fatal failure, because commands are not answered
   * afterwards.
   */
  | { type: 'recording'; recording: FlightRecording | null }
  /**
   * The answers to the commands `predict` (with the same `id`) and `inspect`, from this rank's copy
   * of the model. The answer is `null` if there is no model: before the first run, in a spectator,
   * or after the GPU was lost.
   */
  | { type: 'prediction'; id: number; answer: { probabilities: number[]; steps: number } | null }
  | { type: 'inspection'; inspection: ModelInspection | null }
  /** The answer to the command `generate` with the same `id`; `null` if there is no model. */
  | { type: 'generated'; id: number; answer: { text: string; steps: number } | null }
  /**
   * The answer to the command `export` with the same `id`: a file, or the problem that prevented
   * the export.
   */
  | { type: 'exported'; id: number; file: ModelFile | null; problem: string | null }
  /**
   * The run is over for this rank. If `fatal`, the rank has also left the room.
   */
  | ({ type: 'failed'; name: string; fatal: boolean } & NoticeMessage);

/** Engine events of these types. */
export type EventOf<Type extends EngineEvent['type']> = Extract<EngineEvent, { type: Type }>;

/** Types of events that only the animation of a page needs. */
export const ANIMATION_EVENT_TYPES = ['begin', 'trace'] as const satisfies readonly EngineEvent['type'][];
