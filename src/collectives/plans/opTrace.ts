/**
 * Creates the trace of an all-reduce: when this rank sent and received in each step of its plan,
 * for display on a page.
 */
import type { AllReduceName } from '../../spec/algorithms.ts';
import type { PlanOp } from '../planOp.ts';
import type { OpTrace } from '../work.ts';
import { stepsOf, type Plan } from './plans.ts';

/** Returns the trace of the finished `op`, whose rank has this plan. */
export function traceOfPlan(op: PlanOp, startedAt: number, algorithm: AllReduceName, plan: Plan): OpTrace {
  const hops = stepsOf(plan).map((planStep) => ({
    planStep,
    sentAt: op.endOf('send', planStep),
    receivedAt: op.endOf('receive', planStep),
    reduceMs: op.spentOn(planStep),
  }));
  return { startedAt, algorithm, hops };
}
