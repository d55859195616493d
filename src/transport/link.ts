/**
 * `Link`: ordered, reliable frames between two ranks. Everything above this interface (handshake,
 * collectives) works the same over every implementation; `test/transport/linkCompliance.ts` is the
 * contract as code.
 */
import type { LinkRoute } from '../protocol/runEvents.ts';
import { MAX_FRAME_BYTES } from '../protocol/frame.ts';
import { UsageError } from '../util/errors.ts';

export type LinkState = 'open' | 'closed';

export interface LinkCounters {
  framesSent: number;
  bytesSent: number;
  framesReceived: number;
  bytesReceived: number;
}

export interface LinkDescription {
  route: LinkRoute;
  /** Milliseconds; `null` where the transport does not measure it. */
  roundTripMs: number | null;
}

/** Of a link that is gone, or whose transport does not say. */
export const UNKNOWN_WAY: LinkDescription = { route: 'unknown', roundTripMs: null };

export interface Link {
  /**
   * Queues one frame (1 .. MAX_FRAME_BYTES bytes) and takes it over: the buffer may be transferred,
   * do not touch it again. Frames arrive whole and in order. Resolves when the frame need not be
   * kept and the queue is below its mark, so that awaiting it is backpressure.
   *
   * @throws (rejects) PeerGoneError once the link is closed, UsageError for a bad size.
   */
  send(frame: ArrayBuffer): Promise<void>;
  /**
   * Called for each frame that arrives; it is the handler's from then on. Frames before there is
   * one are queued.
   */
  onframe: ((frame: ArrayBuffer) => void) | null;
  /**
   * Called once when the link closes, from either side; with the error, if it broke. Called at once
   * if set late.
   */
  onclose: ((error: Error | null) => void) | null;
  readonly state: LinkState;
  readonly counters: Readonly<LinkCounters>;
  /** How the bytes travel, as far as the implementation knows. */
  describe(): Promise<LinkDescription>;
  /**
   * Closes both sides. What was sent before may be lost: acknowledge first what must arrive.
   * Idempotent.
   */
  close(): void;
}

/**
 * Bytes that may wait in one link's queue before `send` stops resolving: enough to keep a fast line
 * busy through a scheduling pause (1 MiB is 8 ms at 1 Gbit/s), little enough that a slow one does
 * not hold much of a tab's memory.
 */
export const HIGH_WATER_BYTES = 1024 * 1024;

/** @throws UsageError where a frame is empty or larger than every browser's data channel takes. */
export function checkFrameSize(frame: ArrayBuffer): void {
  if (frame.byteLength < 1 || frame.byteLength > MAX_FRAME_BYTES) {
    throw new UsageError(`A frame must have 1 to ${MAX_FRAME_BYTES} bytes, not ${frame.byteLength}.`);
  }
}
