/** Simulates a trace whose ring steps are equally long, for pages without a run. */
import { modulo, ringStepCount, transferFrom } from '../../collectives/plans/ringPlan.ts';
import type { RecordedTrace } from '../../protocol/stepTrace.ts';

/** Duration of a ring step on a home network, milliseconds. The player slows it down. */
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
