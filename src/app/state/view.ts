/**
 * The state of everything that the page shows, as a fold over the events of the engine. The fold is
 * pure: the same list of events always results in the same page. The size of the state is bounded,
 * because a run may take days.
 */
import type { EngineEvent, EventOf } from '../../protocol/events.ts';
import type { FlightRecording } from '../../protocol/flightRecording.ts';
import type { NoticeMessage } from '../../protocol/notices.ts';
import type { JobSpec } from '../../spec/job.ts';
import type { MethodTestResult, RunResult } from '../../protocol/runResult.ts';
import {
  initialRunOriginView,
  reduceRunOrigin,
  withoutRunOrigin,
  withoutReadingProgress,
  type ChosenFilesView,
} from './origin.ts';
import { initialRoomView, reduceRoomView, type RoomView } from './room.ts';
import { runViewAtGeneration, type RunView } from './run.ts';
import { reduceRunProgress } from './runProgress.ts';
import { reduceRunTelemetry } from './runTelemetry.ts';

export interface ModelSizes {
  parameters: number;
  gradientBytes: number;
  bucketBytes: readonly number[];
  totalSteps: number;
  trainSamples: number;
  testSamples: number;
}

export interface FailureView extends NoticeMessage {
  name: string;
  fatal: boolean;
}

export interface TabView extends RoomView, ChosenFilesView {
  model: ModelSizes | null;
  run: RunView | null;
  /**
   * The latest comparison of methods in this room, with the job and the world size that were
   * measured.
   */
  compared: { job: JobSpec; worldSize: number; methods: MethodTestResult } | null;
  /** A notice about something that does not stop the run. */
  note: NoticeMessage | null;
  /** Why the current run continues without this tab for a while; `null` if it does not. */
  suspension: NoticeMessage | null;
  failure: FailureView | null;
  /** The latest flight recording that the engine has sent. */
  recording: FlightRecording | null;
}

export const initialTabView: TabView = {
  ...initialRoomView,
  ...initialRunOriginView,
  model: null,
  run: null,
  compared: null,
  note: null,
  suspension: null,
  failure: null,
  recording: null,
};

export function reduceTabView(view: TabView, event: EngineEvent): TabView {
  switch (event.type) {
    case 'state':
    case 'device':
    case 'warmup':
      return { ...view, ...reduceRoomView(view, event) };
    case 'room':
      return {
        ...view,
        ...reduceRoomView(view, event),
        suspension: event.phase === 'FORMING' ? null : view.suspension,
      };
    case 'admitted':
      return { ...view, ...reduceRoomView(view, event), failure: null };
    case 'reading':
    case 'opening':
    case 'preview':
    case 'checkpoint':
    case 'weights':
      return { ...view, ...reduceRunOrigin(event) };
    case 'generation':
      return {
        ...view,
        ...withoutRunOrigin(view, event.job.measure !== null),
        // A note of an earlier run does not apply to this run.
        note: view.run?.number === event.run ? view.note : null,
        suspension: null,
        run: runViewAtGeneration(view.run, event),
        failure: null,
        recording: null,
      };
    case 'model': {
      const { type: _, ...model } = event;
      return { ...view, model };
    }
    case 'step':
      return inRun(view, (run) => reduceRunProgress(run, event), { warmup: null });
    case 'evaluation':
    case 'confusion':
    case 'saved':
    case 'sample':
      return inRun(view, (run) => reduceRunProgress(run, event));
    case 'finished':
      return inRun(view, (run) => reduceRunProgress(run, event), { compared: comparedIn(view, event.result) });
    case 'link':
    case 'distribution':
    case 'trace':
    case 'segments':
    case 'ranks':
    case 'telemetry':
    case 'hashes':
    case 'pipeline':
    case 'algorithm':
    case 'shares':
    case 'codec':
      return inRun(view, (run) => reduceRunTelemetry(run, event));
    case 'lesson': {
      const { type: _, ...lesson } = event;
      return inRun(view, () => ({ lesson }));
    }
    case 'failed':
      return withFailure(view, event);
    case 'note':
      return { ...view, note: { message: event.message, notice: event.notice } };
    case 'suspended':
      return { ...view, suspension: { message: event.message, notice: event.notice } };
    case 'recording':
      return { ...view, recording: event.recording };
    case 'begin':
    case 'testing':
    case 'working':
    case 'pass':
    // modelAnswers.ts handles these events.
    case 'prediction':
    case 'inspection':
    case 'generated':
    // modelExport.ts handles this event.
    case 'exported':
    // The browser stores the key (store.ts).
    case 'hostKey':
      return view;
    default:
      return event satisfies never;
  }
}

/** Returns the view after a failure. A fatal failure ends the engine and its connection. */
function withFailure(view: TabView, { name, message, fatal, notice }: EventOf<'failed'>): TabView {
  const failed = { ...view, ...withoutReadingProgress(view), failure: { name, message, fatal, notice }, warmup: null };
  if (!fatal) return failed;
  return { ...failed, state: 'OFFLINE', connecting: [], isServerAway: false, member: null, lobby: null };
}

/** Returns the view after an event of the run, with changes of the run and `others`. */
function inRun(view: TabView, changesOf: (run: RunView) => Partial<RunView>, others: Partial<TabView> = {}): TabView {
  const { run } = view;
  // If there is no run, this is a late event of a run that this tab has left.
  return run === null ? view : { ...view, run: { ...run, ...changesOf(run) }, ...others };
}

function comparedIn({ run, compared }: TabView, { methods, worldSize }: RunResult): TabView['compared'] {
  return run !== null && methods ? { job: run.job, worldSize, methods } : compared;
}

/**
 * Returns the view after the user has closed the run with this number (`null`: no run was shown). A
 * run that has begun in the meantime stays.
 */
export function tabViewWithoutRun(view: TabView, number: number | null): TabView {
  return (view.run?.number ?? null) === number ? { ...view, run: null, failure: null } : view;
}
