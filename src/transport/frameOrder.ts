/**
 * Restores the order of frames that travel over several connections, by the numbers in their
 * headers, and limits how many are on their way. One connection may be late for seconds. Then
 * senders wait, so that a receiver's memory is bounded and a number is in use only once.
 */
import { FRAME_HEADER_BYTES, FRAME_NUMBERS, numberOf } from '../protocol/frame.ts';
import { ProtocolError } from '../util/errors.ts';

const MIB = 1024 * 1024;
/**
 * Largest total weight of the frames that are on their way or wait for an earlier frame. A line of
 * 1 Gbit/s carries it in one second.
 */
const WINDOW = 128 * MIB;
/** The receiver acknowledges each block of this weight. */
const BLOCK = 4 * MIB;
/**
 * Added to the bytes of a frame. It covers the memory of a small frame, and is large enough that
 * the window has fewer frames than there are numbers.
 */
const OVERHEAD = 2048;
/** Largest number of frames on their way. */
export const MAX_WAITING_FRAMES = Math.floor(WINDOW / (FRAME_HEADER_BYTES + OVERHEAD));

function weightOf({ byteLength }: ArrayBuffer): number {
  return byteLength + OVERHEAD;
}

/** The sender's side: counts what is on its way. */
export class FrameWindow {
  #weight = 0;

  /** Whether the frame may be sent. Otherwise it waits until {@link acknowledged}. */
  admits(frame: ArrayBuffer): boolean {
    return this.#weight + weightOf(frame) <= WINDOW;
  }

  sent(frame: ArrayBuffer): void {
    this.#weight += weightOf(frame);
  }

  /** @throws ProtocolError if fewer frames were sent. */
  acknowledged(): void {
    if (this.#weight < BLOCK) throw new ProtocolError('The other side acknowledged frames that were not sent.');
    this.#weight -= BLOCK;
  }
}

/** The receiver's side. */
export class FrameOrder {
  readonly #waiting = new Map<number, ArrayBuffer>();
  #waitingWeight = 0;
  /** Weight of the frames in order that were not acknowledged. */
  #unacknowledged = 0;
  /** Number of the next frame in order. */
  #next = 0;

  /**
   * Takes a frame that has arrived. Returns the frames that are next in order: none, if an earlier
   * frame is missing.
   *
   * @throws ProtocolError if a number was used twice, or if too many frames or bytes wait.
   */
  add(frame: ArrayBuffer): ArrayBuffer[] {
    const number = numberOf(frame);
    const ahead = (number - this.#next + FRAME_NUMBERS) % FRAME_NUMBERS;
    this.#waitingWeight += weightOf(frame);
    if (ahead > MAX_WAITING_FRAMES || this.#waitingWeight > WINDOW || this.#waiting.has(number)) {
      throw new ProtocolError(`Frame ${number} of a link has arrived, but the next one is ${this.#next}.`);
    }
    this.#waiting.set(number, frame);
    const ordered: ArrayBuffer[] = [];
    for (let next = this.#waiting.get(this.#next); next; next = this.#waiting.get(this.#next)) {
      this.#waiting.delete(this.#next);
      this.#waitingWeight -= weightOf(next);
      this.#unacknowledged += weightOf(next);
      ordered.push(next);
      this.#next = (this.#next + 1) % FRAME_NUMBERS;
    }
    return ordered;
  }

  /** Returns the number of blocks that are complete since the previous call. */
  takeBlocks(): number {
    const blocks = Math.floor(this.#unacknowledged / BLOCK);
    this.#unacknowledged -= blocks * BLOCK;
    return blocks;
  }
}
