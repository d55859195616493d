/** Reads the file of a flight recording, or returns the problem with the file; pure. */
import * as v from 'valibot';
import { FlightRecordingSchema, type FlightRecording } from '../../protocol/flightRecording.ts';
import { errorMessageOf } from '../../util/errors.ts';
import { uiMessages } from '../locales/index.ts';

/** A number, or `null` in place of NaN and infinity, which JSON cannot express. */
const lenient = v.nullable(v.number());
const Clock = v.pipe(
  v.nullable(v.object({ offsetMs: lenient, errorMs: lenient })),
  v.transform((clock) => {
    if (clock === null || clock.offsetMs === null || clock.errorMs === null) return null;
    return { offsetMs: clock.offsetMs, errorMs: clock.errorMs };
  }),
);
const Recording = v.object({ ...FlightRecordingSchema.entries, clocks: v.array(Clock) });

type ReadRecording = { ok: true; recording: FlightRecording } | { ok: false; problem: string };

/** @param text the whole content of the file. */
export function parseFlightRecordingFile(text: string): ReadRecording {
  const { recording: labels } = uiMessages.value.run;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { ok: false, problem: labels.notJson(errorMessageOf(error)) };
  }
  const result = v.safeParse(Recording, value);
  if (!result.success) {
    const [issue] = result.issues;
    return { ok: false, problem: labels.notOurs(v.getDotPath(issue) ?? '', issue.message) };
  }
  const recording = result.output;
  if (recording.rank >= recording.worldSize)
    return { ok: false, problem: labels.notOurs('rank', `${recording.rank} of ${recording.worldSize}`) };
  return { ok: true, recording };
}
