/** Messages to all ranks of a group over the flood relay (`diagnostics/floodRelay.ts`). */
import * as v from 'valibot';
import {
  AbortError,
  MismatchError,
  PeerGoneError,
  PeergradError,
  ProtocolError,
  TimeoutError,
  type ErrorContext,
} from '../util/errors.ts';
import { HangReport } from './diagnostics/diagnosis.ts';

export const GroupMessage = v.variant('type', [
  /** The sender has failed the group. */
  v.strictObject({
    type: v.literal('abort'),
    name: v.string(),
    message: v.string(),
    /**
     * The rank where the error happened, according to the sender. This rank is not always the
     * sender.
     */
    rank: v.optional(v.number()),
    op: v.optional(v.string()),
    seq: v.optional(v.number()),
    missing: v.optional(v.array(v.number())),
  }),
  /**
   * Asks all ranks which collective they have called as number `seq`. The sender called it
   * `waitedMs` ago, and waits `waitMs` for the answers.
   */
  v.strictObject({ type: v.literal('inquiry'), seq: v.number(), waitedMs: v.number(), waitMs: v.number() }),
  v.strictObject({ type: v.literal('report'), seq: v.number(), report: HangReport }),
  /**
   * About monitored barrier number `barrier`: `arrived` if the sender has arrived, `passed` if all
   * ranks have arrived.
   */
  v.strictObject({ type: v.picklist(['arrived', 'passed']), barrier: v.pipe(v.number(), v.integer()) }),
]);
export type GroupMessage = v.InferOutput<typeof GroupMessage>;
export type AbortMessage = Extract<GroupMessage, { type: 'abort' }>;

/**
 * Maximum length of an error message, in characters. With this limit an abort message fits in a
 * frame.
 */
const MAX_MESSAGE_LENGTH = 4000;

type ErrorClass = new (message: string, context?: ErrorContext) => PeergradError;

/** Errors that keep their class on other ranks; any other error becomes a PeerGoneError. */
const ABORT_ERRORS: ReadonlyMap<string, ErrorClass> = new Map<string, ErrorClass>([
  ['AbortError', AbortError],
  ['MismatchError', MismatchError],
  ['TimeoutError', TimeoutError],
  ['ProtocolError', ProtocolError],
]);

export function createAbortMessage(error: Error): AbortMessage {
  const { rank, op, seq, missing }: ErrorContext = error instanceof PeergradError ? error.context : {};
  const where = Object.fromEntries(
    Object.entries({ rank, op, seq, missing }).filter(([, value]) => value !== undefined),
  );
  return { type: 'abort', name: error.name, message: error.message.slice(0, MAX_MESSAGE_LENGTH), ...where };
}

export function abortErrorClass({ name }: AbortMessage): ErrorClass {
  return ABORT_ERRORS.get(name) ?? PeerGoneError;
}
