/**
 * A trace that nobody measured, for pages where nothing runs yet: even ring steps, drawn under the
 * word "simulated".
 */
import { modulo, ringStepCount, transferFrom } from '../../collectives/plans/ringPlan.ts';
import type { RecordedTrace } from '../../protocol/stepTrace.ts';

/**
 * As long as a ring step on a home network might take, milliseconds; the player slows it down as it
 * does real ones.
 */
const STEP_MS = 4;

export function simulatedTrace(n: number): RecordedTrace {
  const hops = Array.from({ length: ringStepCount(n) }, (_, ringStep) => ({
    ringStep,
    sentChunk: transferFrom(n, ringStep, 0).chunk,
    receivedChunk: transferFrom(n, ringStep, modulo(-1, n)).chunk,
    sentAt: STEP_MS * (ringStep + 0.15),
    receivedAt: STEP_MS * (ringStep + 0.9),
  }));
  return { step: 0, bucket: 0, bytes: 0, startedAt: 0, hops };
}
