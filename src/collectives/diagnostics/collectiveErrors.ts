/**
 * Creates the errors that end a group. They report what happened, where, and which ranks are
 * missing.
 */
import {
  MismatchError,
  errorReasonOf,
  PeerGoneError,
  PeergradError,
  TimeoutError,
  type ErrorContext,
} from '../../util/errors.ts';
import { nameRanks } from '../../util/text.ts';
import { diagnoseHang } from './diagnosis.ts';
import type { HangReports } from './hangDiagnostics.ts';
import { describeTransferProgress } from './opDeadline.ts';
import type { InFlightOp } from '../inFlightOp.ts';
import { abortErrorClass, type AbortMessage } from '../groupMessages.ts';

/** Creates the error for ranks that have called different collectives as number `seq`. */
export function mismatchError(context: ErrorContext, seq: number, reports: HangReports): MismatchError {
  const { text } = diagnoseHang(reports);
  const rule = 'Every rank must issue the same collectives in the same order.';
  return new MismatchError(`Ranks disagree about collective #${seq}. ${text} ${rule}`, { ...context, seq });
}

/**
 * Creates the error for a collective that has not ended by its deadline.
 *
 * @param options.activity sentences about what the awaited ranks do; may be empty.
 */
export function timeoutError(
  context: ErrorContext,
  op: InFlightOp,
  reports: HangReports,
  { now, activity }: { now: number; activity: string },
): TimeoutError {
  const { seq, call, timeoutMs } = op;
  const { missing, text } = diagnoseHang(reports);
  const progress = progressOf(op, now);
  const waited = `rank ${context.rank} waited ${timeoutMs} ms in collective #${seq} ${call}${progress}`;
  return new TimeoutError([`Timed out: ${waited}.`, text, activity].filter(Boolean).join(' '), {
    ...context,
    op: call,
    seq,
    missing,
  });
}

/**
 * Returns text about the data of an op, such as `; 0 of 40 bytes of rank 1 have arrived`, or about
 * the ranks that do not accept data.
 */
function progressOf(op: InFlightOp, now: number): string {
  const { missing, stalled, blocked, movedAt, record } = op;
  if (missing.length === 0 && stalled.length === 0) return '';
  const { startedAt } = record;
  if (missing.length > 0) {
    const text = describeTransferProgress({ ...op.amount('receive'), startedAt, movedAt }, 'arrived', now);
    return `; ${text}; data of ${nameRanks(missing)} is missing`;
  }
  if (blocked.length > 0) return `; rank ${blocked[0]} is not ready to receive data`;
  const text = describeTransferProgress({ ...op.amount('send'), startedAt, movedAt }, 'left', now);
  return `; ${text}; the link to ${nameRanks(stalled)} accepts no more`;
}

/** Creates the error for an op that this rank cannot complete, if no other rank is the cause. */
export function localOpError(context: ErrorContext, call: string, cause: unknown, seq?: number): PeergradError {
  const what = seq === undefined ? call : `collective #${seq} ${call}`;
  return new PeergradError(
    `Rank ${context.rank} cannot complete ${what}: ${errorReasonOf(cause)}. Do not change or transfer the tensors of ` +
      'an op before it is done, and check that there is enough memory for its result.',
    { ...context, op: call, seq },
    { cause },
  );
}

/**
 * Creates the error for the abort message of rank `from`.
 *
 * @param reportsOf returns the reports of an inquiry; `null` if there was none.
 */
export function peerAbortError(
  context: ErrorContext,
  abort: AbortMessage,
  from: number,
  reportsOf: (seq: number) => HangReports | null,
): PeergradError {
  const { message, op, seq, missing } = abort;
  // If the context of a rank's error names that rank itself, the rank accuses the missing ranks to
  // the server. The claim of another rank alone must not cause an accusation. Therefore `rank` is
  // never this rank: it is the rank in the message, or the sender if the message names this rank or
  // no rank.
  const rank = abort.rank === undefined || abort.rank === context.rank ? from : abort.rank;
  const ErrorClass = abortErrorClass(abort);
  // After an inquiry, this rank has the ranks' reports, and accuses those that the reports show to
  // be missing. It ignores the list of missing ranks in the received message, because the
  // sender of that list could blame any rank.
  const reports = ErrorClass === TimeoutError && seq !== undefined ? reportsOf(seq) : null;
  const where = reports === null ? { rank, missing } : { missing: diagnoseHang(reports).missing };
  return new ErrorClass(message, { ...context, ...where, op, seq });
}

/** Creates the error for a lost link. @param during the oldest collective in flight. */
export function linkLostError(
  context: ErrorContext,
  peer: number,
  during: Pick<InFlightOp, 'seq' | 'call'> | null,
  cause: Error | null,
): PeerGoneError {
  const when = during ? ` during collective #${during.seq} ${during.call}` : '';
  const because = cause ? `: ${cause.message}` : '.';
  return new PeerGoneError(`Rank ${context.rank} lost its link to rank ${peer}${when}${because}`, {
    ...context,
    missing: [peer],
  });
}
