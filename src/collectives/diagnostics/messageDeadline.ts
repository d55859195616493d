/** The deadline of a message, and the progress of its data. */
import type { FlightRecord } from '../../protocol/flightRecording.ts';
import type { Clock } from '../../util/clock.ts';
import { TimeoutError, type ErrorContext } from '../../util/errors.ts';
import type { Dtype } from '../dtypes.ts';
import type { ProcessGroupOptions } from '../options.ts';
import { OpDeadline, describeTransferProgress, type LinkActivity } from './opDeadline.ts';

/** The number of elements of a message that have arrived or left, and when data last moved. */
export interface MessageTransfer {
  moved: number;
  movedAt: number | null;
}

interface Environment extends Pick<ProcessGroupOptions, 'activityOf'> {
  rank: number;
  ranks: readonly number[];
  clock: Clock;
  progress: LinkActivity;
  context: () => ErrorContext;
  fail: (error: Error) => void;
}

interface Message {
  timeoutMs: number;
  record: FlightRecord;
  /** Global ranks that the message waits for (`awaited`) and that the error blames (`missing`). */
  awaited: readonly number[];
  missing: readonly number[];
  state: () => string;
  /** Returns the time of the latest sign of progress, except bytes of this op or earlier ops. */
  heardAt?: () => number;
}

export function createMessageDeadline(
  { rank, ranks, clock, progress, activityOf, context, fail }: Environment,
  { timeoutMs, record, awaited, missing, state, heardAt = () => -Infinity }: Message,
): OpDeadline {
  const { call, scheduledAt } = record;
  const expire = (activity: string): void => {
    const text = [`Timed out: rank ${ranks[rank]} waited ${timeoutMs} ms in ${call}.`, state(), activity];
    fail(new TimeoutError(text.filter(Boolean).join(' '), { ...context(), op: call, missing: [...missing] }));
  };
  const progressAt = (): number => Math.max(progress.since(scheduledAt), heardAt());
  const onexpire = (): void => deadline.extendOrFail(awaited, expire);
  const deadline: OpDeadline = new OpDeadline({
    clock,
    timeoutMs,
    progress,
    awaited: () => awaited,
    progressAt,
    activityOf,
    onexpire,
  });
  return deadline;
}

export function messageTransferText(
  { moved, movedAt }: MessageTransfer,
  { count, startedAt }: FlightRecord,
  { bytes }: Dtype,
  verb: string,
  now: number,
): string {
  return describeTransferProgress({ moved: moved * bytes, total: count * bytes, startedAt, movedAt }, verb, now);
}
