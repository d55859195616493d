/**
 * Creates the trace of an all-reduce on the ring: when each chunk was sent and received, for
 * display on a page.
 */
import type { PlanOp } from '../planOp.ts';
import { modulo, ringStepCount, transferFrom } from './ringPlan.ts';
import type { OpTrace } from '../work.ts';

/** Returns the trace of the finished `op` of `rank` in a ring of `n`. */
export function traceOfRing(op: PlanOp, startedAt: number, rank: number, n: number): OpTrace {
  const left = modulo(rank - 1, n);
  const hops = Array.from({ length: ringStepCount(n) }, (_, ringStep) => ({
    ringStep,
    sentChunk: transferFrom(n, ringStep, rank).chunk,
    receivedChunk: transferFrom(n, ringStep, left).chunk,
    sentAt: op.endOf('send', ringStep),
    receivedAt: op.endOf('receive', ringStep),
    reduceMs: op.spentOn(ringStep),
  }));
  return { startedAt, hops };
}
