/**
 * When each chunk of an all-reduce over the ring went and came: what the plan's ring steps show on
 * a page.
 */
import type { PlanOp } from '../planOp.ts';
import { modulo, ringStepCount, transferFrom } from './ringPlan.ts';
import type { OpTrace } from '../work.ts';

/** Of the finished `op` of `rank` in a ring of `n`. */
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
