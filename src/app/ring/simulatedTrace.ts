/** Simulates a trace whose steps are equally long, for pages without a run. */
import { allReduceSteps } from '../../collectives/plans/planSteps.ts';
import type { AllReduceTraceRecord } from '../../protocol/stepTrace.ts';
import type { AllReduceName } from '../../spec/algorithms.ts';

/** Duration of a step on a home network, milliseconds. The player shows steps slower than that. */
const STEP_MS = 4;

export function simulatedTrace(n: number, algorithm: AllReduceName): AllReduceTraceRecord {
  const hops = allReduceSteps(algorithm, n).steps.map(({ planStep }, i) => ({
    planStep,
    sentAt: STEP_MS * (i + 0.15),
    receivedAt: STEP_MS * (i + 0.9),
  }));
  return { step: 0, bucket: 0, bytes: 0, algorithm, startedAt: 0, hops };
}
