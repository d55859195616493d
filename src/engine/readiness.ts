/**
 * Decides when a tab is ready for a run. It is a pure function: (state, event) -> (state, effects).
 * It has no clock, device, files or sockets. The session reports events to it and executes the
 * effects. A tab announces that it is ready once its device is open and it has the data that the
 * job needs. During a run, it must also have prepared that run. A tab whose data or state does not
 * match the other ranks is out until its files or the job change.
 */
import type { RoomMessage } from '../protocol/control.ts';
import { isDataChosenInTabs, type JobSpec } from '../spec/job.ts';
import { previewInputsOf, jobHasPreview } from '../spec/preview.ts';
import { CodeLoadError } from './loadCodeModule.ts';
import { DataError, DeviceError, DivergenceError, PeergradError } from '../util/errors.ts';
import { isCountedReady, type ReadyRank } from './membership/readyAnnouncer.ts';
import type { RendezvousOptions } from './membership/rendezvousOptions.ts';

/**
 * How often in one run a tab opens its GPU again after losing it. After one more loss the tab gives
 * up.
 */
const MAX_RECOVERIES = 3;

/**
 * How often in one run a tab's divergent state is replaced. After one more divergence the tab is
 * out.
 */
const MAX_DIVERGENCES = 2;

/** The consequence that an error of this rank has for the other ranks. */
type Scope = ReturnType<RendezvousOptions['scopeOf']>;

/** A file that the user has chosen. */
type ChosenFile = Pick<File, 'name' | 'size'>;

/** The check of the chosen files for one job. */
interface Inspection {
  readonly id: number;
  /** The job's requirements for the files. If they change, the files are inspected again. */
  readonly demands: string;
  /** Whether the job can be trained on the files; `null` until that is known. */
  readonly isFit: boolean | null;
}

/** The latest announcement to the server, already sent or still being prepared. */
interface Announcement {
  readonly id: number;
  /** The kind of data for which the tab is ready, and the current run if there is one. */
  readonly subject: string;
}

export interface ReadinessState {
  /** This tab's id in the room; empty before admission. */
  readonly member: string;
  /** The latest message about the room; `null` if the tab is in no room. */
  readonly room: RoomMessage | null;
  readonly isSpectator: boolean;
  readonly files: readonly ChosenFile[];
  readonly inspection: Inspection | null;
  readonly announcement: Announcement | null;
  /**
   * Whether the run of {@link room} has ended on this tab, and no message about the room has
   * arrived since.
   */
  readonly isRunOver: boolean;
  /** Whether the tab is opening its lost GPU again. */
  readonly isRecovering: boolean;
  /** How often this tab has lost its GPU in this run. */
  readonly recoveries: number;
  /** How often this rank's state was divergent in this run. */
  readonly divergences: number;
  /** Whether this tab cannot take part until its files or the job change. */
  readonly isOut: boolean;
  /** The id of the next inspection or announcement. Results with an older id are ignored. */
  readonly nextId: number;
}

export type ReadinessEvent =
  /** This tab requests admission to a room. */
  | { type: 'entered'; isSpectator: boolean }
  /** The server has admitted this tab, possibly again. */
  | { type: 'admitted'; member: string }
  | { type: 'room'; message: RoomMessage }
  /** The user has chosen files. */
  | { type: 'files'; files: readonly ChosenFile[] }
  | { type: 'inspected'; id: number; isFit: boolean }
  | { type: 'uninspected'; id: number; error: unknown }
  /** The effect `prepare` is done. */
  | { type: 'prepared'; id: number; rank: ReadyRank }
  | { type: 'unprepared'; id: number; error: unknown }
  /** This rank's part in a generation has failed. */
  | { type: 'failed'; error: unknown }
  | { type: 'recovered' }
  | { type: 'unrecovered'; error: unknown }
  /** A run has ended. */
  | { type: 'ended'; run: number }
  /** This tab has left its room. */
  | { type: 'left' };

export type ReadinessEffect =
  /** Inspect the chosen files for `job`. */
  | { type: 'inspect'; id: number; job: JobSpec }
  /** Open the device and, during a run, prepare the run. */
  | { type: 'prepare'; id: number; room: RoomMessage }
  /** Announce to the server that this tab is ready. */
  | { type: 'announce'; rank: ReadyRank }
  /**
   * Make the chosen files the data of the job. `isRequested` means that the user has just chosen
   * them, so that a failure must be reported.
   */
  | { type: 'share'; isRequested: boolean }
  /** Save the run's state, because ranks that have left may not return. */
  | { type: 'save' }
  /** Discard the prepared run, because it failed with the previously chosen files. */
  | { type: 'discard' }
  /** Open the lost GPU again. */
  | { type: 'recover' }
  | { type: 'fail'; error: unknown; isFatal: boolean }
  /** Leave the room. */
  | { type: 'leave' };

interface ReadinessStep {
  readonly state: ReadinessState;
  readonly effects: readonly ReadinessEffect[];
}

export const INITIAL_READINESS: ReadinessState = {
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

/** Returns the state after `event`, and the effects to execute. Never throws. */
export function nextReadiness(state: ReadinessState, event: ReadinessEvent): ReadinessStep {
  switch (event.type) {
    case 'entered': {
      const { files, inspection, nextId } = state;
      return stay({ ...INITIAL_READINESS, files, inspection, nextId, isSpectator: event.isSpectator });
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
    case 'uninspected':
      return state.inspection?.id === event.id ? giveUp(state, event.error) : stay(state);
    case 'prepared':
      return stay(state, state.announcement?.id === event.id ? [{ type: 'announce', rank: event.rank }] : []);
    case 'unprepared': {
      const { id, error } = event;
      if (state.announcement?.id !== id) return stay(state);
      const out = { ...state, announcement: null, isOut: true };
      const isOver = error instanceof DeviceError || error instanceof CodeLoadError;
      return isOver ? giveUp(out, error) : stay(out, [{ type: 'fail', error, isFatal: false }]);
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
 * Returns what an error of this rank means for the other ranks.
 * - `rank`: this rank is out. Its GPU has failed, a part of its page is missing, its own data are
 *   invalid, its data or model differs from that of most ranks, or its state was divergent more
 *   than MAX_DIVERGENCES times.
 * - `generation`: only the generation ends. Another rank is divergent, or this rank has a divergent
 *   state that will be replaced.
 * - `run`: any other error ends the run.
 */
export function errorScopeOf({ room, divergences }: ReadinessState, error: unknown): Scope {
  if (error instanceof DeviceError || error instanceof CodeLoadError) return 'rank';
  const { divergent, rank } = error instanceof PeergradError ? error.context : {};
  if (divergent === undefined) {
    // Distributed files are the same on all ranks, so an error in them is not this rank's own.
    const isOwnData = error instanceof DataError && room?.job.data.kind !== 'shared';
    return isOwnData ? 'rank' : 'run';
  }
  // Only the divergent rank reports that it is out.
  if (rank === undefined || !divergent.includes(rank)) return 'generation';
  // In the next generation a divergent state is replaced. Divergent data and models stay divergent.
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
  // If the room's data or the job's demands on the data have changed, the problem may be solved.
  // Then the tab is no longer out.
  const isOut = state.isOut && (room === null || dataOf(room.job) === dataOf(message.job));
  // The server no longer counts this tab as ready, because it was late. The tab is in fact still
  // ready, so it announces itself again.
  const isDropped = isCountedReady(room, member) && !isCountedReady(message, member);
  const announcement = isDropped ? null : state.announcement;
  // If the job now distributes files, this tab shares the files that its user has already chosen.
  if (room?.job.data.kind !== 'shared' && message.job.data.kind === 'shared' && files.length > 0) {
    effects.push({ type: 'share', isRequested: false });
  }
  if (message.phase === 'PAUSED' && room?.phase !== 'PAUSED' && !isOut) effects.push({ type: 'save' });
  return consider({ ...state, room: message, isRunOver: false, isOut, announcement }, effects);
}

function onFailed(state: ReadinessState, error: unknown): ReadinessStep {
  const scope = errorScopeOf(state, error);
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

/**
 * Adds the next effect on the way to being ready, if there is one. First `inspect`, if files are
 * not inspected for this job. Then `prepare`, if the tab has not announced that it is ready for
 * this run or this kind of data.
 */
function consider(state: ReadinessState, effects: readonly ReadinessEffect[] = []): ReadinessStep {
  const { room, files, member, nextId, announcement } = state;
  if (room === null || state.isSpectator || state.isOut || state.isRecovering) return stay(state, effects);
  const { job, phase, run } = room;
  if (jobHasPreview(job.job) && hasFilesOf(job, files)) {
    const demands = previewInputsOf(job);
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
  const isAnnounced = announcement !== null && isRunOn && isCountedReady(room, member);
  if (isAnnounced || announcement?.subject === subject || !isDataChosen(job, files)) return stay(state, effects);
  return stay({ ...state, announcement: { id: nextId, subject }, nextId: nextId + 1 }, [
    ...effects,
    { type: 'prepare', id: nextId, room },
  ]);
}

/** Returns whether the files that `job` needs are chosen, either on this tab or by the host. */
function isDataChosen({ data }: JobSpec, files: readonly ChosenFile[]): boolean {
  if (isDataChosenInTabs(data)) return files.length > 0;
  return data.kind !== 'shared' || data.files.length > 0;
}

/** Returns whether this tab's user has chosen the files from which `job` learns. */
function hasFilesOf({ data }: JobSpec, files: readonly ChosenFile[]): boolean {
  if (isDataChosenInTabs(data)) return files.length > 0;
  if (data.kind !== 'shared' || data.files.length === 0) return false;
  return entriesOf(data.files) === entriesOf(files);
}

function entriesOf(files: readonly ChosenFile[]): string {
  return JSON.stringify(files.map(({ name, size }) => ({ name, size })));
}

/** Returns a description of a job's data and of what the job requires of them. */
function dataOf(job: JobSpec): string {
  return JSON.stringify([job.data, previewInputsOf(job)]);
}
