/**
 * Restores the order of frames that travel over several connections, by the numbers in their
 * headers, and limits how many are on their way. One connection may be late for seconds. Then
 * senders wait, so that a receiver's memory is bounded and a number is in use only once.
 */
import { FRAME_HEADER_BYTES, FRAME_NUMBER_LIMIT, frameNumberOf } from '../protocol/frame.ts';
import { ProtocolError } from '../util/errors.ts';

const MIB = 1024 * 1024;

export interface FrameWindowSize {
  /** Largest total weight of the frames that are on their way or wait for an earlier frame. */
  bytes: number;
  /** The receiver acknowledges each block of this weight. */
  block: number;
}

/** For links over data channels. A line of 1 Gbit/s carries the window in one second. */
export const DATA_CHANNEL_WINDOW: FrameWindowSize = { bytes: 128 * MIB, block: 4 * MIB };
/**
 * For links through the server, which has to hold the window if a receiver is slow. With a round
 * trip of 20 ms between the ends, 50 windows cross the link in a second.
 */
export const SERVER_LINK_WINDOW: FrameWindowSize = { bytes: MIB, block: MIB / 8 };

/**
 * Number that is added to the bytes of a frame for its weight. It covers the memory of a small
 * frame, and is large enough that the largest window has fewer frames than there are numbers.
 */
const OVERHEAD = 2048;

/** Returns the largest number of frames that can be on their way. */
export function maxWaitingFrames({ bytes }: FrameWindowSize): number {
  return Math.floor(bytes / (FRAME_HEADER_BYTES + OVERHEAD));
}

function weightOf({ byteLength }: ArrayBuffer): number {
  return byteLength + OVERHEAD;
}

/** The sender's side: counts what is on its way. */
export class FrameSendWindow {
  readonly #size: FrameWindowSize;
  #weight = 0;

  constructor(size: FrameWindowSize) {
    this.#size = size;
  }

  /** Whether the frame may be sent. Otherwise it waits until {@link acknowledged}. */
  admits(frame: ArrayBuffer): boolean {
    return this.#weight + weightOf(frame) <= this.#size.bytes;
  }

  sent(frame: ArrayBuffer): void {
    this.#weight += weightOf(frame);
  }

  /** @throws ProtocolError if fewer frames were sent. */
  acknowledged(): void {
    const { block } = this.#size;
    if (this.#weight < block) throw new ProtocolError('The other side acknowledged frames that were not sent.');
    this.#weight -= block;
  }
}

/** The receiver's side. */
export class FrameReceiveOrder {
  readonly #size: FrameWindowSize;
  readonly #maxWaiting: number;
  readonly #waiting = new Map<number, ArrayBuffer>();
  #waitingWeight = 0;
  /** Weight of the frames in order that were not acknowledged. */
  #unacknowledged = 0;
  /** Number of the next frame in order. */
  #next = 0;

  /** @param size the sender's window. */
  constructor(size: FrameWindowSize) {
    this.#size = size;
    this.#maxWaiting = maxWaitingFrames(size);
  }

  /**
   * Takes a frame that has arrived. Returns the frames that are next in order: none, if an earlier
   * frame is missing.
   *
   * @throws ProtocolError if a number was used twice, or if too many frames or bytes wait.
   */
  add(frame: ArrayBuffer): ArrayBuffer[] {
    const number = frameNumberOf(frame);
    const ahead = (number - this.#next + FRAME_NUMBER_LIMIT) % FRAME_NUMBER_LIMIT;
    this.#waitingWeight += weightOf(frame);
    if (ahead > this.#maxWaiting || this.#waitingWeight > this.#size.bytes || this.#waiting.has(number)) {
      throw new ProtocolError(`Frame ${number} of a link has arrived, but the next one is ${this.#next}.`);
    }
    this.#waiting.set(number, frame);
    const ordered: ArrayBuffer[] = [];
    for (let next = this.#waiting.get(this.#next); next; next = this.#waiting.get(this.#next)) {
      this.#waiting.delete(this.#next);
      this.#waitingWeight -= weightOf(next);
      this.#unacknowledged += weightOf(next);
      ordered.push(next);
      this.#next = (this.#next + 1) % FRAME_NUMBER_LIMIT;
    }
    return ordered;
  }

  /** Returns the number of blocks that are complete since the previous call. */
  takeBlocks(): number {
    const { block } = this.#size;
    const blocks = Math.floor(this.#unacknowledged / block);
    this.#unacknowledged -= blocks * block;
    return blocks;
  }
}
