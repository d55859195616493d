/**
 * A bound on frames that are parked until this rank asks for them. Senders keep to what they may send ahead; one that does not must
 * not fill this rank's memory.
 */
import { ProtocolError, type ErrorContext } from '../util/errors.ts';

/** What a frame without payload counts for: it costs some hundred bytes here. */
const MIN_FRAME_BYTES = 512;

export interface ParkingOptions {
  /** Most bytes of one sender. */
  maxBytes: number;
  /** The error's sentence, behind "Rank 3 sent more than 32 MiB of". */
  what: string;
  /** Global rank of a sender. */
  rankOf: (from: number) => number;
  context: () => ErrorContext;
}

export class Parking {
  readonly #options: ParkingOptions;
  readonly #bytes = new Map<number, number>();

  constructor(options: ParkingOptions) {
    this.#options = options;
  }

  /** A frame is parked. @throws ProtocolError where its sender has parked too much. */
  enter(frame: ArrayBuffer, from: number): void {
    const { maxBytes, what, rankOf, context } = this.#options;
    const bytes = (this.#bytes.get(from) ?? 0) + weigh(frame);
    this.#bytes.set(from, bytes);
    if (bytes <= maxBytes) return;
    throw new ProtocolError(`Rank ${rankOf(from)} sent more than ${maxBytes / 2 ** 20} MiB of ${what}.`, context());
  }

  /** A parked frame is taken. */
  leave(frame: ArrayBuffer, from: number): void {
    this.#bytes.set(from, this.#bytes.get(from)! - weigh(frame));
  }
}

function weigh({ byteLength }: ArrayBuffer): number {
  return Math.max(byteLength, MIN_FRAME_BYTES);
}
