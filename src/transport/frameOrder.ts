/**
 * Restores the order of frames that arrive over several connections, by the numbers in their
 * headers.
 */
import { FRAME_NUMBERS, numberOf } from '../protocol/frame.ts';
import { ProtocolError } from '../util/errors.ts';

/**
 * Largest number of frames that wait for an earlier one, together 256 MiB. A connection that
 * repeats a lost packet for two seconds holds up less than that on a line of 1 Gbit/s.
 */
export const MAX_WAITING_FRAMES = 4096;

export class FrameOrder {
  readonly #waiting = new Map<number, ArrayBuffer>();
  /** Number of the next frame in order. */
  #next = 0;

  /**
   * Takes a frame that has arrived. Returns the frames that are next in order: none, if an earlier
   * frame is missing.
   *
   * @throws ProtocolError if a number was used twice, or if too many frames wait.
   */
  add(frame: ArrayBuffer): ArrayBuffer[] {
    const number = numberOf(frame);
    const ahead = (number - this.#next + FRAME_NUMBERS) % FRAME_NUMBERS;
    if (ahead > MAX_WAITING_FRAMES || this.#waiting.has(number)) {
      throw new ProtocolError(`Frame ${number} of a link has arrived, but the next one is ${this.#next}.`);
    }
    this.#waiting.set(number, frame);
    const ordered: ArrayBuffer[] = [];
    for (let next = this.#waiting.get(this.#next); next; next = this.#waiting.get(this.#next)) {
      this.#waiting.delete(this.#next);
      ordered.push(next);
      this.#next = (this.#next + 1) % FRAME_NUMBERS;
    }
    return ordered;
  }
}
