/**
 * Computes one picture (frame) of an all-reduce, as a pure function of the trace, n and the time t.
 * A frame has the chunks on their way, and every copy of every chunk on every rank. The moves come
 * from the plan of the trace's algorithm, and the times come from the trace. A trace has the times
 * of only one rank, so all ranks are drawn at these times.
 */
import { clamp } from '../../util/clamp.ts';
import {
  allReduceSteps,
  type AllReduceSteps,
  type PlanTransfer,
  type PlanStepPhase,
} from '../../collectives/plans/planSteps.ts';
import type { AllReduceTraceRecord } from '../../protocol/stepTrace.ts';

/** The ranks whose numbers are in the sum of a cell, in the order of addition. */
export type SummedRanks = readonly number[];

export interface ChunkFlight extends PlanTransfer {
  /** How much of their way the chunks have travelled: 0 at the sender, 1 at the receiver. */
  progress: number;
  /**
   * The ranks whose numbers are in the sums of the travelling chunks. All chunks of a flight have
   * the same ranks.
   */
  parts: SummedRanks;
}

export interface RingFrame {
  plan: AllReduceSteps;
  /** The number of the plan's steps whose chunks have arrived. */
  completed: number;
  /** The current phase. It is `done` when every rank has every sum. */
  phase: PlanStepPhase | 'done';
  /** The chunks on their way, sorted by sender. There are none between two steps. */
  flights: ChunkFlight[];
  /** The content of each cell: `cells[rank][chunk]`. */
  cells: SummedRanks[][];
}

/**
 * The times at which the chunks of each step left and arrived, in milliseconds since the all-reduce
 * began. They never decrease.
 */
export interface TraceTimeline {
  leaves: number[];
  arrives: number[];
  duration: number;
}

/**
 * A chunk is shown as travelling during at least this share of its step. Its departure in the
 * trace, `sentAt`, is the time at which its last byte left; the first bytes left long before.
 */
const LEAST_TRAVEL = 0.4;

/**
 * Each step is drawn as if it took at least this share of the average step. Without this minimum,
 * the chunks of two steps could seem to arrive together, because clocks have a limited resolution.
 */
const LEAST_STEP = 0.02;

export function traceTimelineOf(trace: AllReduceTraceRecord, { steps }: AllReduceSteps): TraceTimeline {
  const byStep = new Map(trace.hops.map((hop) => [hop.planStep, hop]));
  const hops = steps.map(({ planStep }) => byStep.get(planStep));
  const known = hops.map((hop) => sinceStart(trace, hop?.receivedAt) ?? sinceStart(trace, hop?.sentAt));
  const sent = hops.map((hop) => sinceStart(trace, hop?.sentAt));
  const end = Math.max(0, ...[...known, ...sent].filter((time) => time !== null));
  const least = (LEAST_STEP * end) / Math.max(1, steps.length);
  // Steps after the last known time take as long as the average of the steps before it.
  const usual = end > 0 ? end / (1 + known.findLastIndex((time) => time !== null)) : 1;
  const leaves: number[] = [];
  const arrives: number[] = [];
  let now = 0;
  for (const [i, leave] of sent.entries()) {
    // A rank has no times for steps in which it only waits. The time until its next known step is
    // divided evenly.
    const next = known.findIndex((time, j) => j >= i && time !== null);
    const even = next < 0 ? usual : (known[next]! - now) / (next - i + 1);
    const arrive = now + Math.max(least, even);
    const latest = now + (arrive - now) * (1 - LEAST_TRAVEL);
    leaves.push(clamp(leave ?? now, now, latest));
    arrives.push(arrive);
    now = arrive;
  }
  return { leaves, arrives, duration: now };
}

/**
 * Returns the number of steps whose chunks have arrived `t` milliseconds after the all-reduce
 * began.
 */
export function completedPlanStepsAt({ arrives }: TraceTimeline, t: number): number {
  let completed = 0;
  while (completed < arrives.length && arrives[completed]! <= t) completed++;
  return completed;
}

/** Returns the frame at `t` milliseconds after the all-reduce began. */
export function ringFrameAt(trace: AllReduceTraceRecord, n: number, t: number): RingFrame {
  const plan = allReduceSteps(trace.algorithm, n);
  const timeline = traceTimelineOf(trace, plan);
  return ringFrameFromTimeline(timeline, plan, t, ringCellsAfter(plan, completedPlanStepsAt(timeline, t)));
}

/**
 * Returns the same frame as {@link ringFrameAt}, but from a timeline and cells that are already
 * known.
 */
export function ringFrameFromTimeline(
  timeline: TraceTimeline,
  plan: AllReduceSteps,
  t: number,
  cells: SummedRanks[][],
): RingFrame {
  const completed = completedPlanStepsAt(timeline, t);
  const step = plan.steps[completed];
  if (step === undefined) return { plan, completed, phase: 'done', flights: [], cells };
  const leave = timeline.leaves[completed]!;
  const arrive = timeline.arrives[completed]!;
  const progress = arrive > leave ? clamp((t - leave) / (arrive - leave), 0, 1) : 0;
  const flights =
    t < leave ? [] : step.transfers.map((one) => ({ ...one, progress, parts: cells[one.from]![one.first]! }));
  return { plan, completed, phase: step.phase, flights, cells };
}

/**
 * The content of every cell after `completed` steps of a plan, kept to compute the cells of later
 * steps.
 */
export interface KnownRingCells {
  plan: AllReduceSteps;
  completed: number;
  cells: SummedRanks[][];
}

/**
 * Returns the content of every cell after the first `completed` steps of the plan.
 *
 * @param known cells at an earlier time. If they belong to the same plan, only the steps after them
 *   are computed, because in a large world, computing all steps takes longer than a frame.
 */
export function ringCellsAfter(
  plan: AllReduceSteps,
  completed: number,
  known: KnownRingCells | null = null,
): SummedRanks[][] {
  const isEarlier = known !== null && known.plan === plan && known.completed <= completed;
  const cells = isEarlier ? [...known.cells] : cellsBefore(plan);
  // The caller keeps the known rows. They are copied before they change.
  const shared = new Set(isEarlier ? cells : []);
  for (const { transfers } of plan.steps.slice(isEarlier ? known.completed : 0, completed)) {
    // The chunks of a step leave before any of them arrives.
    const sent = transfers.map(({ from, first, count }) => cells[from]!.slice(first, first + count));
    for (const [i, { to, first, reduces }] of transfers.entries()) {
      if (shared.has(cells[to]!)) cells[to] = [...cells[to]!];
      const row = cells[to]!;
      for (const [k, parts] of sent[i]!.entries()) {
        row[first + k] = reduces ? [...parts, ...row[first + k]!] : parts;
      }
    }
  }
  return cells;
}

/** Returns the cells before the first step. Each has the numbers of its own rank. */
function cellsBefore({ n, chunks }: AllReduceSteps): SummedRanks[][] {
  return Array.from({ length: n }, (_, rank) => {
    const own: SummedRanks = [rank];
    return Array.from({ length: chunks }, () => own);
  });
}

/**
 * Returns the name of a chunk. It has letters, so that it differs from a rank: A to Z, then AA and
 * so on.
 */
export function chunkName(chunk: number): string {
  const letter = String.fromCharCode(65 + (chunk % 26));
  return chunk < 26 ? letter : chunkName(Math.floor(chunk / 26) - 1) + letter;
}

function sinceStart(trace: AllReduceTraceRecord, at: number | null | undefined): number | null {
  return at === null || at === undefined ? null : at - trace.startedAt;
}
