/**
 * The unexpected-message queue of one group: frames of collectives that this rank has not called
 * yet.
 */
import type { FrameHeader } from '../protocol/frame.ts';
import type { UnexpectedMessageLimit } from './unexpectedMessageLimit.ts';

interface UnexpectedMessage {
  header: FrameHeader;
  frame: ArrayBuffer;
  /** Rank in the group. */
  from: number;
}

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
