/**
 * Merges the recordings of several ranks. All times are converted to the clock of the first
 * recording. Pure.
 */
import type { AllReduceTraceRecord } from '../../protocol/stepTrace.ts';
import type { FlightRecording } from '../../protocol/flightRecording.ts';
import { shiftLaneTimes, type RanksTimeline } from './timeline.ts';

/**
 * Returns the offset from the clock of `first` to the clock of a recording, or `null` if neither
 * rank has compared the two clocks.
 */
function offsetOf(recording: FlightRecording, first: FlightRecording): { offsetMs: number; errorMs: number } | null {
  if (recording === first) return { offsetMs: 0, errorMs: 0 };
  const theirs = first.clocks[recording.rank] ?? null;
  if (theirs !== null) return theirs;
  const back = recording.clocks[first.rank] ?? null;
  return back && { offsetMs: -back.offsetMs, errorMs: back.errorMs };
}

/**
 * Returns a row for every rank of the world. The row is empty if the rank has no recording or no
 * clock offset.
 */
export function mergeRecordedLanes(recordings: readonly FlightRecording[]): RanksTimeline {
  const [first] = recordings;
  if (first === undefined) return { rows: [], errorMs: 0 };
  let errorMs = 0;
  const rows = Array.from({ length: first.worldSize }, (_, rank) => {
    const recording = recordings.find((one) => one.rank === rank);
    const offset = recording === undefined ? null : offsetOf(recording, first);
    if (recording === undefined || offset === null) return { rank, name: '', steps: [] };
    errorMs = Math.max(errorMs, offset.errorMs);
    return { rank, name: '', steps: shiftLaneTimes(recording.lanes, offset.offsetMs) };
  });
  return { rows, errorMs };
}

/** Returns the traces of each rank, with times on the clock of the first recording. */
export function mergeRecordedTraces(recordings: readonly FlightRecording[]): Map<number, AllReduceTraceRecord[]> {
  const [first] = recordings;
  const traces = new Map<number, AllReduceTraceRecord[]>();
  for (const recording of recordings) {
    const offset = first && offsetOf(recording, first);
    if (!offset) continue;
    const back = (at: number | null): number | null => (at === null ? null : at - offset.offsetMs);
    const own = recording.traces.map((trace) => ({
      ...trace,
      startedAt: trace.startedAt - offset.offsetMs,
      hops: trace.hops.map((hop) => ({ ...hop, sentAt: back(hop.sentAt), receivedAt: back(hop.receivedAt) })),
    }));
    traces.set(recording.rank, own);
  }
  return traces;
}
