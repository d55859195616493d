/**
 * Limit of unexpected messages: frames that arrive before this rank calls their op, over all groups
 * of a mesh. A sender that ignores its send window must not fill this rank's memory.
 */
import { ProtocolError, type ErrorContext } from '../util/errors.ts';

const MIB = 1024 * 1024;
/**
 * Bytes of one sender's collectives: for the first group twice its send windows (`sendWindow.ts`),
 * to allow for headers and reserved ops; once its send windows for each further group.
 */
export const MAX_UNEXPECTED_COLLECTIVES = { oneGroup: 32 * MIB, furtherGroup: 16 * MIB };
/**
 * The same for messages (`pointToPoint.ts`): the data that a sender may send ahead and some ten
 * thousand headers.
 */
export const MAX_UNEXPECTED_MESSAGES = { oneGroup: 16 * MIB, furtherGroup: 4 * MIB };
/** Further groups that raise the limit: otherwise it would grow with every group. */
const MAX_FURTHER_GROUPS = 3;

/** Least bytes that a frame counts for: even without payload it takes some hundred here. */
const MIN_FRAME_BYTES = 512;

interface UnexpectedMessageOptions {
  /** Most bytes of one sender; see {@link MAX_UNEXPECTED_COLLECTIVES}. */
  limits: { oneGroup: number; furtherGroup: number };
  /** Number of groups that a sender shares with this rank. */
  groupsWith: (sender: number) => number;
  /** End of the error "Rank 3 sent more than 32 MiB, over all groups, of ...". */
  what: string;
  context: ErrorContext;
}

export class UnexpectedMessageLimit {
  readonly #options: UnexpectedMessageOptions;
  /** By sender (global rank). */
  readonly #bytes = new Map<number, number>();

  constructor(options: UnexpectedMessageOptions) {
    this.#options = options;
  }

  /**
   * Counts a frame.
   *
   * @throws ProtocolError if its sender exceeds the limit.
   */
  add(frame: ArrayBuffer, from: number): void {
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

  /** Releases a frame that was received or dropped. */
  remove(frame: ArrayBuffer, from: number): void {
    this.#bytes.set(from, this.#bytes.get(from)! - weigh(frame));
  }
}

function weigh({ byteLength }: ArrayBuffer): number {
  return Math.max(byteLength, MIN_FRAME_BYTES);
}
