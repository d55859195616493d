/**
 * When a tab can be counted on for a run, as a pure function: (state, event) -> (state, effects).
 * It has no clock, device, files or sockets: the session feeds it what happened and carries out the
 * effects.
 *
 * A tab announces itself once its device is open and it has the data that the job needs; while a
 * run is on, once it has also prepared that run. A tab whose data or state does not fit is out
 * until its files or the job change.
 */
import type { ServerMessage } from '../protocol/control.ts';
import type { Device } from '../protocol/room.ts';
import { isChosenByTabs, type JobSpec } from '../spec/job.ts';
import { demandsOf, hasPreview } from '../spec/preview.ts';
import { DataError, DeviceError, DivergenceError, PeergradError } from '../util/errors.ts';
import type { RendezvousOptions } from './membership/rendezvousOptions.ts';

/** Losses of the GPU that a tab recovers from in one run; it gives up at the next one. */
const MAX_RECOVERIES = 3;

/** Times in one run that a tab's divergent state is replaced; it is out at the next one. */
const MAX_DIVERGENCES = 2;

export type RoomMessage = Extract<ServerMessage, { type: 'room' }>;

/** The consequence of this rank's error for the others. */
type Scope = ReturnType<RendezvousOptions['scopeOf']>;

/** A file that the user has chosen. */
type ChosenFile = Pick<File, 'name' | 'size'>;

/** The look into the chosen files for one job. */
interface Inspection {
  readonly id: number;
  /** The job's demands on the files: other demands need another inspection. */
  readonly demands: string;
  /** Whether the files can be trained on; `null` until that is known. */
  readonly isFit: boolean | null;
}

/** The latest announcement to the server, from its preparation on. */
interface Announcement {
  readonly id: number;
  /** The kind of data that the tab is ready for, and the current run if there is one. */
  readonly subject: string;
}

export interface ReadinessState {
  /** This tab's id in the room; empty before admission. */
  readonly member: string;
  /** The latest message about the room; `null` outside of rooms. */
  readonly room: RoomMessage | null;
  readonly isSpectator: boolean;
  readonly files: readonly ChosenFile[];
  readonly inspection: Inspection | null;
  readonly announcement: Announcement | null;
  /**
   * Whether the run of {@link room} has ended here, and the server has not described the room
   * since.
   */
  readonly isRunOver: boolean;
  /** Whether the lost GPU is being set up again. */
  readonly isRecovering: boolean;
  /** Losses of the GPU in this run. */
  readonly recoveries: number;
  /** Times that this rank's state was divergent in this run. */
  readonly divergences: number;
  /** Whether this tab cannot take part until its files or the job change. */
  readonly isOut: boolean;
  /** Id of the next inspection or announcement. Results with an older id are ignored. */
  readonly nextId: number;
}

export type ReadinessEvent =
  /** This tab asks for admission to a room. */
  | { type: 'entered'; isSpectator: boolean }
  /** The server has admitted this tab, possibly again. */
  | { type: 'admitted'; member: string }
  | { type: 'room'; message: RoomMessage }
  /** The user has chosen files. */
  | { type: 'files'; files: readonly ChosenFile[] }
  | { type: 'inspected'; id: number; isFit: boolean }
  /** What `prepare` asked for is done. `stateOfRun`: the run whose state this tab has. */
  | { type: 'prepared'; id: number; device: Device; stateOfRun: number | null }
  | { type: 'unprepared'; id: number; error: unknown }
  /** This rank's part in a generation has failed. */
  | { type: 'failed'; error: unknown }
  | { type: 'recovered' }
  | { type: 'unrecovered'; error: unknown }
  /** A run is over. */
  | { type: 'ended'; run: number }
  /** This tab is in no room any more. */
  | { type: 'left' };

export type ReadinessEffect =
  /** Look into the chosen files for `job`. */
  | { type: 'inspect'; id: number; job: JobSpec }
  /** Open the device and, while a run is on, prepare it. */
  | { type: 'prepare'; id: number; room: RoomMessage }
  /** Announce this tab to the server. */
  | { type: 'announce'; device: Device; stateOfRun: number | null }
  /**
   * Make the chosen files the data of the job. `isRequested`: the user has just chosen them, so a
   * failure is reported.
   */
  | { type: 'share'; isRequested: boolean }
  /** Save the run's state: ranks that left may not return. */
  | { type: 'save' }
  /** Discard the prepared run: it failed with the files from before. */
  | { type: 'discard' }
  /** Set the lost GPU up again. */
  | { type: 'recover' }
  | { type: 'fail'; error: unknown; isFatal: boolean }
  /** Leave the room. */
  | { type: 'leave' };

interface ReadinessStep {
  readonly state: ReadinessState;
  readonly effects: readonly ReadinessEffect[];
}

export const NOT_READY: ReadinessState = {
  member: '',
  room: null,
  isSpectator: false,
  files: [],
  inspection: null,
  announcement: null,
  isRunOver: false,
  isRecovering: false,
  recoveries: 0,
  divergences: 0,
  isOut: false,
  nextId: 1,
};

/** Returns the state after `event`, and what has to be done. Never throws. */
export function advance(state: ReadinessState, event: ReadinessEvent): ReadinessStep {
  switch (event.type) {
    case 'entered': {
      const { files, inspection, nextId } = state;
      return stay({ ...NOT_READY, files, inspection, nextId, isSpectator: event.isSpectator });
    }
    case 'admitted':
      return consider({ ...state, member: event.member, announcement: null });
    case 'room':
      return onRoom(state, event.message);
    case 'files': {
      const effects: ReadinessEffect[] = state.isOut ? [{ type: 'discard' }] : [];
      if (state.room?.job.data.kind === 'shared' && event.files.length > 0) {
        effects.push({ type: 'share', isRequested: true });
      }
      return consider({ ...state, files: event.files, inspection: null, isOut: false }, effects);
    }
    case 'inspected': {
      const { inspection } = state;
      if (inspection?.id !== event.id) return stay(state);
      return consider({ ...state, inspection: { ...inspection, isFit: event.isFit } });
    }
    case 'prepared': {
      const { id, device, stateOfRun } = event;
      return state.announcement?.id === id ? stay(state, [{ type: 'announce', device, stateOfRun }]) : stay(state);
    }
    case 'unprepared': {
      const { id, error } = event;
      if (state.announcement?.id !== id) return stay(state);
      const out = { ...state, announcement: null, isOut: true };
      return error instanceof DeviceError ? giveUp(out, error) : stay(out, [{ type: 'fail', error, isFatal: false }]);
    }
    case 'failed':
      return onFailed(state, event.error);
    case 'recovered':
      return state.isRecovering ? consider({ ...state, isRecovering: false }) : stay(state);
    case 'unrecovered':
      return state.isRecovering ? giveUp({ ...state, isRecovering: false }, event.error) : stay(state);
    case 'ended':
      return consider({
        ...state,
        announcement: null,
        recoveries: 0,
        divergences: 0,
        isRunOver: state.room?.run === event.run,
      });
    case 'left':
      return stay({ ...state, room: null, announcement: null, isRecovering: false });
    default:
      return event satisfies never;
  }
}

/**
 * Returns the consequence of this rank's error for the others. Ranks whose own data or state
 * differ from most are out, as is a rank without a GPU; another rank's error ends the generation
 * only.
 */
export function scopeOf({ room, divergences }: ReadinessState, error: unknown): Scope {
  if (error instanceof DeviceError) return 'rank';
  const { divergent, rank } = error instanceof PeergradError ? error.context : {};
  if (divergent === undefined) {
    // Distributed files are the same on all ranks.
    const isOwnData = error instanceof DataError && room?.job.data.kind !== 'shared';
    return isOwnData ? 'rank' : 'run';
  }
  // The divergent rank reports the error itself.
  if (rank === undefined || !divergent.includes(rank)) return 'generation';
  // The next generation replaces a divergent state; divergent data and models stay what they are.
  return error instanceof DivergenceError && divergences < MAX_DIVERGENCES ? 'generation' : 'rank';
}

function stay(state: ReadinessState, effects: readonly ReadinessEffect[] = []): ReadinessStep {
  return { state, effects };
}

function giveUp(state: ReadinessState, error: unknown): ReadinessStep {
  return stay({ ...state, room: null }, [{ type: 'fail', error, isFatal: true }, { type: 'leave' }]);
}

function onRoom(state: ReadinessState, message: RoomMessage): ReadinessStep {
  const { room, member, files } = state;
  const effects: ReadinessEffect[] = [];
  // Other data, or another demand on the same data, may be without the problem.
  const isOut = state.isOut && (room === null || dataOf(room.job) === dataOf(message.job));
  // The server gives up a late rank, which is as ready as before.
  const isDropped = isCounted(room, member) && !isCounted(message, member);
  const announcement = isDropped ? null : state.announcement;
  // The user may choose files before the host chooses to distribute them.
  if (room?.job.data.kind !== 'shared' && message.job.data.kind === 'shared' && files.length > 0) {
    effects.push({ type: 'share', isRequested: false });
  }
  if (message.phase === 'PAUSED' && room?.phase !== 'PAUSED' && !isOut) effects.push({ type: 'save' });
  return consider({ ...state, room: message, isRunOver: false, isOut, announcement }, effects);
}

function onFailed(state: ReadinessState, error: unknown): ReadinessStep {
  const scope = scopeOf(state, error);
  if (error instanceof DeviceError) {
    const lost = { ...state, announcement: null, recoveries: state.recoveries + 1 };
    if (lost.recoveries > MAX_RECOVERIES) return giveUp(lost, error);
    return stay({ ...lost, isRecovering: true }, [{ type: 'recover' }]);
  }
  if (scope === 'rank') return stay({ ...state, isOut: true }, [{ type: 'fail', error, isFatal: false }]);
  return stay(isOwnDivergence(error) ? { ...state, divergences: state.divergences + 1 } : state);
}

function isOwnDivergence(error: unknown): boolean {
  if (!(error instanceof DivergenceError)) return false;
  const { divergent = [], rank } = error.context;
  return rank !== undefined && divergent.includes(rank);
}

/** Begins the next thing that is missing before this tab can be counted on. */
function consider(state: ReadinessState, effects: readonly ReadinessEffect[] = []): ReadinessStep {
  const { room, files, member, nextId, announcement } = state;
  if (room === null || state.isSpectator || state.isOut || state.isRecovering) return stay(state, effects);
  const { job, phase, run } = room;
  if (hasPreview(job.job) && hasFilesOf(job, files)) {
    const demands = demandsOf(job);
    if (state.inspection?.demands !== demands) {
      const inspection = { id: nextId, demands, isFit: null };
      return stay({ ...state, inspection, nextId: nextId + 1 }, [...effects, { type: 'inspect', id: nextId, job }]);
    }
    if (!state.inspection.isFit) return stay(state, effects);
  }
  const isRunOn = phase !== 'FORMING';
  if (isRunOn && state.isRunOver) return stay(state, effects);
  const { kind } = job.data;
  const subject = isRunOn ? `${kind} ${run}` : kind;
  const isAnnounced = announcement !== null && isRunOn && isCounted(room, member);
  if (isAnnounced || announcement?.subject === subject || !isDataChosen(job, files)) return stay(state, effects);
  return stay({ ...state, announcement: { id: nextId, subject }, nextId: nextId + 1 }, [
    ...effects,
    { type: 'prepare', id: nextId, room },
  ]);
}

/** Whether the room counts `member` as ready. */
function isCounted(room: RoomMessage | null, member: string): boolean {
  return room?.members.some((one) => one.member === member && one.device !== null) ?? false;
}

/** Whether the files that `job` needs are chosen, here or by the host. */
function isDataChosen({ data }: JobSpec, files: readonly ChosenFile[]): boolean {
  if (isChosenByTabs(data)) return files.length > 0;
  return data.kind !== 'shared' || data.files.length > 0;
}

/** Whether this tab's user has chosen the files that `job` learns from. */
function hasFilesOf({ data }: JobSpec, files: readonly ChosenFile[]): boolean {
  if (isChosenByTabs(data)) return files.length > 0;
  if (data.kind !== 'shared' || data.files.length === 0) return false;
  return entriesOf(data.files) === entriesOf(files);
}

function entriesOf(files: readonly ChosenFile[]): string {
  return JSON.stringify(files.map(({ name, size }) => ({ name, size })));
}

/** A job's data, and its demands on them. */
function dataOf(job: JobSpec): string {
  return JSON.stringify([job.data, demandsOf(job)]);
}
