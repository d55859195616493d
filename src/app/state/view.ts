/**
 * Everything that the page shows, as a fold over the engine's events. The fold is pure: a recorded
 * list of events gives the same page again. It is bounded: a run may last for days.
 */
import type { EngineEvent } from '../../protocol/events.ts';
import type { FlightRecording } from '../../protocol/flightRecording.ts';
import type { EventOf } from './events.ts';
import { initialOrigin, reduceOrigin, withoutOrigin, withoutPartialReading, type OriginView } from './origin.ts';
import { initialRoom, reduceRoom, type RoomView } from './room.ts';
import { reduceRun, runAtGeneration, type Run } from './run.ts';

export interface ModelSizes {
  parameters: number;
  gradientBytes: number;
  bucketBytes: readonly number[];
  /** Why the buckets have these sizes, where ranks chose them. */
  totalSteps: number;
  trainSamples: number;
  testSamples: number;
}

export interface Failure {
  name: string;
  message: string;
  fatal: boolean;
}

export interface View extends RoomView, OriginView {
  model: ModelSizes | null;
  run: Run | null;
  /** A notice that stops nothing. */
  note: string | null;
  failure: Failure | null;
  /** The flight recorder's last report. */
  recording: FlightRecording | null;
}

export const initialView: View = {
  ...initialRoom,
  ...initialOrigin,
  model: null,
  run: null,
  note: null,
  failure: null,
  recording: null,
};

export function reduce(view: View, event: EngineEvent): View {
  switch (event.type) {
    case 'state':
    case 'device':
    case 'hostKey':
    case 'room':
    case 'warmup':
      return { ...view, ...reduceRoom(view, event) };
    case 'admitted':
      return { ...view, ...reduceRoom(view, event), failure: null };
    case 'reading':
    case 'preview':
    case 'checkpoint':
    case 'weights':
      return { ...view, ...reduceOrigin(event) };
    case 'generation':
      return {
        ...view,
        ...withoutOrigin(view, event.job.schedule === 'range-test'),
        // A note of the lobby gives the reason why this tab was left out.
        note: view.run?.number === event.run ? view.note : null,
        run: runAtGeneration(view.run, event),
        failure: null,
        recording: null,
      };
    case 'model': {
      const { type: _, ...model } = event;
      return { ...view, model };
    }
    case 'link':
    case 'file-distribution':
    case 'step':
    case 'trace':
    case 'segments':
    case 'ranks':
    case 'telemetry':
    case 'hashes':
    case 'evaluation':
    case 'confusion':
    case 'codec':
    case 'saved':
    case 'sample':
    case 'finished':
    case 'lesson':
      // Without a run, the event is a late one of a run that this tab has left.
      if (view.run === null) return view;
      return { ...view, run: reduceRun(view.run, event), warmup: event.type === 'step' ? null : view.warmup };
    case 'failed':
      return withFailure(view, event);
    case 'note':
      return { ...view, note: event.message };
    case 'recording':
      return { ...view, recording: event.recording };
    case 'begin':
    case 'testing':
    // inspection/modelAnswers.ts receives these.
    case 'prediction':
    case 'inspection':
    case 'generated':
    // modelFiles/modelExport.ts receives this.
    case 'exported':
      return view;
    default:
      return event satisfies never;
  }
}

/** A fatal failure ends the engine, and with it the connection. */
function withFailure(view: View, { name, message, fatal }: EventOf<'failed'>): View {
  const failed = { ...view, ...withoutPartialReading(view), failure: { name, message, fatal }, warmup: null };
  if (!fatal) return failed;
  return { ...failed, state: 'OFFLINE', connecting: [], isServerAway: false, member: null, lobby: null };
}

/** The page after its user has closed the run. */
export function withoutRun(view: View): View {
  return { ...view, run: null, failure: null };
}
