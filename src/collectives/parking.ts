/**
 * A bound on frames that are parked until this rank asks for them, over all groups of a mesh. Senders keep to what they may send
 * ahead; one that does not must not fill this rank's memory.
 */
import { ProtocolError, type ErrorContext } from '../util/errors.ts';

/**
 * Most bytes parked of one sender's collectives: twice what it may send ahead in a group (`executor.ts`), for headers, reserved
 * ops and further groups.
 */
export const MAX_PARKED_COLLECTIVE_BYTES = 32 * 1024 * 1024;
/** Most bytes parked of one sender's messages: what it may send ahead (`pointToPoint.ts`), and some ten thousand headers. */
export const MAX_PARKED_MESSAGE_BYTES = 16 * 1024 * 1024;

/** What a frame without payload counts for: it costs some hundred bytes here. */
const MIN_FRAME_BYTES = 512;

export interface ParkingOptions {
  /** Most bytes of one sender. */
  maxBytes: number;
  /** The error's sentence, behind "Rank 3 sent more than 32 MiB of". */
  what: string;
  context: ErrorContext;
}

export class Parking {
  readonly #options: ParkingOptions;
  /** By sender (global rank). */
  readonly #bytes = new Map<number, number>();

  constructor(options: ParkingOptions) {
    this.#options = options;
  }

  /** A frame is to be parked. @throws ProtocolError where its sender has parked too much. */
  enter(frame: ArrayBuffer, from: number): void {
    const { maxBytes, what, context } = this.#options;
    const bytes = (this.#bytes.get(from) ?? 0) + weigh(frame);
    if (bytes > maxBytes) {
      throw new ProtocolError(`Rank ${from} sent more than ${maxBytes / 2 ** 20} MiB of ${what}.`, context);
    }
    this.#bytes.set(from, bytes);
  }

  /** A parked frame is taken, or dropped. */
  leave(frame: ArrayBuffer, from: number): void {
    this.#bytes.set(from, this.#bytes.get(from)! - weigh(frame));
  }
}

function weigh({ byteLength }: ArrayBuffer): number {
  return Math.max(byteLength, MIN_FRAME_BYTES);
}
