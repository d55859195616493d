/**
 * The state of everything that the page shows, as a fold over the events of the engine. The fold is
 * pure: the same list of events always results in the same page. The size of the state is bounded,
 * because a run may take days.
 */
import type { EngineEvent, EventOf } from '../../protocol/events.ts';
import type { FlightRecording } from '../../protocol/flightRecording.ts';
import type { NoticeText } from '../../protocol/notices.ts';
import type { JobSpec } from '../../spec/job.ts';
import type { MethodComparison, RunResult } from '../../protocol/runResult.ts';
import { initialOrigin, reduceOrigin, withoutOrigin, withoutPartialReading, type OriginView } from './origin.ts';
import { initialRoom, reduceRoom, type RoomView } from './room.ts';
import { runAtGeneration, type Run } from './run.ts';
import { reduceProgress } from './runProgress.ts';
import { reduceTelemetry } from './runTelemetry.ts';

export interface ModelSizes {
  parameters: number;
  gradientBytes: number;
  bucketBytes: readonly number[];
  totalSteps: number;
  trainSamples: number;
  testSamples: number;
}

export interface Failure extends NoticeText {
  name: string;
  fatal: boolean;
}

export interface View extends RoomView, OriginView {
  model: ModelSizes | null;
  run: Run | null;
  /**
   * The latest comparison of methods in this room, with the job and the world size that were
   * measured.
   */
  compared: { job: JobSpec; worldSize: number; methods: MethodComparison } | null;
  /** A notice about something that does not stop the run. */
  note: NoticeText | null;
  /** Why the current run continues without this tab for a while; `null` if it does not. */
  suspension: NoticeText | null;
  failure: Failure | null;
  /** The latest flight recording that the engine has sent. */
  recording: FlightRecording | null;
}

export const initialView: View = {
  ...initialRoom,
  ...initialOrigin,
  model: null,
  run: null,
  compared: null,
  note: null,
  suspension: null,
  failure: null,
  recording: null,
};

export function reduce(view: View, event: EngineEvent): View {
  switch (event.type) {
    case 'state':
    case 'device':
    case 'warmup':
      return { ...view, ...reduceRoom(view, event) };
    case 'room':
      return { ...view, ...reduceRoom(view, event), suspension: event.phase === 'FORMING' ? null : view.suspension };
    case 'admitted':
      return { ...view, ...reduceRoom(view, event), failure: null };
    case 'reading':
    case 'opening':
    case 'preview':
    case 'checkpoint':
    case 'weights':
      return { ...view, ...reduceOrigin(event) };
    case 'generation':
      return {
        ...view,
        ...withoutOrigin(view, event.job.measure !== null),
        // A note of an earlier run does not apply to this run.
        note: view.run?.number === event.run ? view.note : null,
        suspension: null,
        run: runAtGeneration(view.run, event),
        failure: null,
        recording: null,
      };
    case 'model': {
      const { type: _, ...model } = event;
      return { ...view, model };
    }
    case 'step':
      return inRun(view, (run) => reduceProgress(run, event), { warmup: null });
    case 'evaluation':
    case 'confusion':
    case 'saved':
    case 'sample':
      return inRun(view, (run) => reduceProgress(run, event));
    case 'finished':
      return inRun(view, (run) => reduceProgress(run, event), { compared: comparedIn(view, event.result) });
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
      return inRun(view, (run) => reduceTelemetry(run, event));
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
function withFailure(view: View, { name, message, fatal, notice }: EventOf<'failed'>): View {
  const failed = { ...view, ...withoutPartialReading(view), failure: { name, message, fatal, notice }, warmup: null };
  if (!fatal) return failed;
  return { ...failed, state: 'OFFLINE', connecting: [], isServerAway: false, member: null, lobby: null };
}

/** Returns the view after an event of the run, with changes of the run and `others`. */
function inRun(view: View, changesOf: (run: Run) => Partial<Run>, others: Partial<View> = {}): View {
  const { run } = view;
  // If there is no run, this is a late event of a run that this tab has left.
  return run === null ? view : { ...view, run: { ...run, ...changesOf(run) }, ...others };
}

function comparedIn({ run, compared }: View, { methods, worldSize }: RunResult): View['compared'] {
  return run !== null && methods ? { job: run.job, worldSize, methods } : compared;
}

/**
 * Returns the view after the user has closed the run with this number (`null`: no run was shown). A
 * run that has begun in the meantime stays.
 */
export function withoutRun(view: View, number: number | null): View {
  return (view.run?.number ?? null) === number ? { ...view, run: null, failure: null } : view;
}
