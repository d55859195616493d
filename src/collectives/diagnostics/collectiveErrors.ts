/** Errors that end a group: what happened, where, and which ranks are missing. */
import {
  MismatchError,
  messageOf,
  PeerGoneError,
  PeergradError,
  TimeoutError,
  type ErrorContext,
} from '../../util/errors.ts';
import { diagnose } from './diagnosis.ts';
import type { Reports } from './hangDiagnostics.ts';
import type { InFlightOp } from '../inFlightOp.ts';
import type { PlanOp } from '../planOp.ts';
import type { SendWindows } from '../sendWindow.ts';

/** Ranks have called different collectives as number `seq`. */
export function mismatchError(context: ErrorContext, seq: number, reports: Reports): MismatchError {
  const { text } = diagnose(reports);
  const rule = 'Every rank must issue the same collectives in the same order.';
  return new MismatchError(`Ranks disagree about collective #${seq}. ${text} ${rule}`, { ...context, seq });
}

/** A collective has not ended by its deadline. @param ranks global ranks of the group. */
export function timeoutError(
  context: ErrorContext,
  { seq, call, timeoutMs, data, windows }: InFlightOp,
  ranks: readonly number[],
  reports: Reports,
): TimeoutError {
  const { missing, text } = diagnose(reports);
  const progress = missing.length > 0 ? '' : progressOf(data, windows, ranks);
  const waited = `rank ${context.rank} waited ${timeoutMs} ms in collective #${seq} ${call}${progress}`;
  return new TimeoutError(`Timed out: ${waited}. ${text}`, { ...context, op: call, seq, missing });
}

/** The missing data, if all ranks have called an op: `; it has 0 of 40 elements of rank 1`. */
function progressOf(op: PlanOp, windows: SendWindows, ranks: readonly number[]): string {
  const [late] = op.missing();
  if (late) return `; it has ${late.received} of ${late.expected} elements of rank ${ranks[late.peer]}`;
  const blocked = windows.blockedPeer();
  return blocked === undefined ? '' : `; rank ${ranks[blocked]} is not ready for its data`;
}

/** This rank cannot complete an op, and no other rank is the cause. */
export function crashError(context: ErrorContext, call: string, cause: unknown, seq?: number): PeergradError {
  const what = seq === undefined ? call : `collective #${seq} ${call}`;
  return new PeergradError(
    `Rank ${context.rank} cannot complete ${what}: ${messageOf(cause)}. Do not change or transfer its tensors ` +
      'before it is done, and check that there is memory for its result.',
    { ...context, op: call, seq },
    { cause },
  );
}

/** @param during the oldest collective in flight. */
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
