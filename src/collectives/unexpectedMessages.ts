/**
 * Unexpected messages are frames that arrive before this rank has called their op. They wait in a
 * queue. Each sender has one limit for all groups of the mesh together, because a sender that does
 * not wait for READY must not fill this rank's memory.
 */
import type { FrameHeader } from '../protocol/frame.ts';
import { queuedFrameBytesOf } from '../transport/link.ts';
import { ProtocolError, type ErrorContext } from '../util/errors.ts';

const MIB = 1024 * 1024;
/**
 * Limits for the collectives of one sender, in bytes. With one group, the limit is twice the bytes
 * that a sender may send before READY (`inFlightOp.ts`), so that headers and reserved ops have
 * room. Each further group adds these bytes.
 */
export const MAX_UNEXPECTED_COLLECTIVE_BYTES = { oneGroup: 32 * MIB, furtherGroup: 16 * MIB };
/**
 * Limits for the messages of one sender (`pointToPoint.ts`), in bytes: the data that a sender may
 * send ahead, and more than twenty thousand headers.
 */
export const MAX_UNEXPECTED_MESSAGE_BYTES = { oneGroup: 16 * MIB, furtherGroup: 4 * MIB };
/** Maximum number of further groups that raise the limit, so that the limit is bounded. */
const MAX_FURTHER_GROUPS = 3;

interface UnexpectedMessageOptions {
  /** Maximum number of bytes of one sender; see {@link MAX_UNEXPECTED_COLLECTIVE_BYTES}. */
  limits: { oneGroup: number; furtherGroup: number };
  /** Returns the number of groups that a sender shares with this rank. */
  groupsWith: (sender: number) => number;
  /** The part of the error message "Rank 3 sent more than 32 MiB of ..." that names the frames. */
  what: string;
  context: ErrorContext;
}

export class UnexpectedMessageLimit {
  readonly #options: UnexpectedMessageOptions;
  /** Counted bytes by sender (global rank). */
  readonly #bytes = new Map<number, number>();

  constructor(options: UnexpectedMessageOptions) {
    this.#options = options;
  }

  /** Adds a frame to the count. @throws ProtocolError if its sender exceeds the limit. */
  add(frame: ArrayBuffer, from: number): void {
    const { limits, what, context } = this.#options;
    const bytes = (this.#bytes.get(from) ?? 0) + queuedFrameBytesOf(frame);
    if (bytes > limits.oneGroup && bytes > this.#maxBytes(from)) {
      const most = this.#maxBytes(from) / MIB;
      throw new ProtocolError(`Rank ${from} sent more than ${most} MiB of ${what}, in all groups together.`, context);
    }
    this.#bytes.set(from, bytes);
  }

  #maxBytes(from: number): number {
    const { limits, groupsWith } = this.#options;
    return limits.oneGroup + limits.furtherGroup * Math.min(Math.max(groupsWith(from) - 1, 0), MAX_FURTHER_GROUPS);
  }

  /** Subtracts a frame that was received or dropped. */
  remove(frame: ArrayBuffer, from: number): void {
    this.#bytes.set(from, this.#bytes.get(from)! - queuedFrameBytesOf(frame));
  }
}

interface UnexpectedMessage {
  header: FrameHeader;
  frame: ArrayBuffer;
  /** Rank in the group. */
  from: number;
}

/** The unexpected messages of one group's collectives. */
export class UnexpectedMessageQueue {
  readonly #limit: UnexpectedMessageLimit;
  readonly #ranks: readonly number[];
  readonly #bySeq = new Map<number, UnexpectedMessage[]>();

  /** @param ranks global ranks of the group. The limit counts bytes by global rank. */
  constructor(limit: UnexpectedMessageLimit, ranks: readonly number[]) {
    this.#limit = limit;
    this.#ranks = ranks;
  }

  /** @throws ProtocolError if the sender exceeds its limit. */
  add(header: FrameHeader, frame: ArrayBuffer, from: number): void {
    this.#limit.add(frame, this.#ranks[from]!);
    const frames = this.#bySeq.get(header.seq);
    if (frames) frames.push({ header, frame, from });
    else this.#bySeq.set(header.seq, [{ header, frame, from }]);
  }

  /** Removes and returns the frames of a collective, in order of arrival. */
  take(seq: number): UnexpectedMessage[] {
    const frames = this.#bySeq.get(seq) ?? [];
    this.#bySeq.delete(seq);
    for (const { frame, from } of frames) this.#limit.remove(frame, this.#ranks[from]!);
    return frames;
  }

  clear(): void {
    for (const seq of this.#bySeq.keys()) this.take(seq);
  }
}
