/**
 * A bound on frames that are unexpected until this rank asks for them, over all groups of a mesh.
 * Senders keep to what they may send ahead; one that does not must not fill this rank's memory.
 */
import { ProtocolError, type ErrorContext } from '../util/errors.ts';

const MIB = 1024 * 1024;
/**
 * Bytes unexpected of one sender's collectives: in one group twice what it may send ahead there
 * (`executor.ts`), for headers and reserved ops; and as much as it may send ahead for each further
 * group.
 */
export const MAX_UNEXPECTED_COLLECTIVES = { oneGroup: 32 * MIB, furtherGroup: 16 * MIB };
/**
 * The same of messages (`pointToPoint.ts`): some ten thousand headers beside what it may send
 * ahead.
 */
export const MAX_UNEXPECTED_MESSAGES = { oneGroup: 16 * MIB, furtherGroup: 4 * MIB };
/** More groups than these add nothing: a bound that grows with every group would bound nobody. */
const MAX_FURTHER_GROUPS = 3;

/** What a frame without payload counts for: it costs some hundred bytes here. */
const MIN_FRAME_BYTES = 512;

interface UnexpectedMessageOptions {
  /** Most bytes of one sender, by the number of groups that it shares with this rank. */
  limits: { oneGroup: number; furtherGroup: number };
  groupsWith: (sender: number) => number;
  /**
   * The rest of the error's sentence, behind "Rank 3 sent more than 32 MiB, over all groups, of".
   */
  what: string;
  context: ErrorContext;
}

export class UnexpectedMessageQueue {
  readonly #options: UnexpectedMessageOptions;
  /** By sender (global rank). */
  readonly #bytes = new Map<number, number>();

  constructor(options: UnexpectedMessageOptions) {
    this.#options = options;
  }

  /**
   * A frame is to be unexpected. @throws ProtocolError where its sender has unexpected too much.
   */
  enter(frame: ArrayBuffer, from: number): void {
    const { limits, what, context } = this.#options;
    const bytes = (this.#bytes.get(from) ?? 0) + weigh(frame);
    if (bytes > limits.oneGroup && bytes > this.#maxBytes(from)) {
      const most = this.#maxBytes(from) / MIB;
      throw new ProtocolError(`Rank ${from} sent more than ${most} MiB, over all groups, of ${what}.`, context);
    }
    this.#bytes.set(from, bytes);
  }

  #maxBytes(from: number): number {
    const { limits, groupsWith } = this.#options;
    return limits.oneGroup + limits.furtherGroup * Math.min(Math.max(groupsWith(from) - 1, 0), MAX_FURTHER_GROUPS);
  }

  /** A unexpected frame is taken, or dropped. */
  leave(frame: ArrayBuffer, from: number): void {
    this.#bytes.set(from, this.#bytes.get(from)! - weigh(frame));
  }
}

function weigh({ byteLength }: ArrayBuffer): number {
  return Math.max(byteLength, MIN_FRAME_BYTES);
}
