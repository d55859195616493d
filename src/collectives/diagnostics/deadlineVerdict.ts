/** Decides from the reports of all ranks whether a collective fails after its deadline. */
import type { Clock } from '../../util/clock.ts';
import type { ErrorContext } from '../../util/errors.ts';
import type { InFlightOp } from '../inFlightOp.ts';
import { timeoutError } from './collectiveErrors.ts';
import { diagnoseHang } from './diagnosis.ts';
import type { HangReports } from './hangDiagnostics.ts';

interface Judge {
  /** This rank (global). */
  self: number;
  clock: Clock;
  context: ErrorContext;
  /** Returns the time at which the latest frame of a rank (global) arrived in the group. */
  heardAt: (rank: number) => number;
  fail: (error: Error) => void;
  /** Called when the collective may wait longer. */
  onextend: () => void;
}

/**
 * Decides whether a collective fails that has made no progress on this rank within its timeout. The
 * collective waits longer if it progressed on another rank, or if all awaited ranks are working.
 */
export function judgeExpiredDeadline(op: InFlightOp, reports: HangReports, waitMs: number, judge: Judge): void {
  const { self, clock, context, heardAt, fail, onextend } = judge;
  const now = clock.now();
  const idleMs = leastIdleMs(op, reports, (rank) => now - heardAt(rank));
  if (idleMs < op.timeoutMs) {
    op.deadline.extend(Math.max(op.timeoutMs - idleMs, waitMs));
    return onextend();
  }
  op.deadline.extendOrFail(
    awaitedRanks(op, reports, self),
    (activity) => fail(timeoutError(context, op, reports, { now, activity })),
    onextend,
  );
}

/**
 * Returns the global ranks that a collective waits for: the missing ranks; if there are none, the
 * ranks whose data or READY is missing, or this rank if its own tensor is not ready.
 */
function awaitedRanks(op: InFlightOp, reports: HangReports, self: number): number[] {
  const { missing } = diagnoseHang(reports);
  if (missing.length > 0) return missing;
  return op.hasInput ? op.awaited : [self];
}

/**
 * Returns the time since bytes of a collective moved on any rank. For some ranks, frames of other
 * ops count, too: ranks whose report is missing, and ranks that have called the collective and
 * still have to send data. On a slow line, the report or the data waits behind these frames.
 *
 * @param quietMs returns the time since a frame of a rank (global) arrived.
 */
function leastIdleMs(
  { missing, deadline }: InFlightOp,
  reports: HangReports,
  quietMs: (rank: number) => number,
): number {
  const idle = [...reports].map(([rank, report]) => {
    const isBehind = report === null || (report.call !== null && missing.includes(rank));
    return Math.min(report?.idleMs ?? Infinity, isBehind ? quietMs(rank) : Infinity);
  });
  return Math.min(deadline.idleMs, ...idle);
}
