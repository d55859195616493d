/**
 * `Link`: ordered, reliable frames between two ranks. Everything above this interface (handshake,
 * collectives) works the same with every implementation; `test/transport/linkCompliance.ts`
 * specifies the contract.
 */
import type { LinkRoute } from '../protocol/runEvents.ts';
import { MAX_FRAME_BYTES } from '../protocol/frame.ts';
import { UsageError } from '../util/errors.ts';

export type LinkState = 'open' | 'closed';

export interface LinkTrafficCounters {
  framesSent: number;
  bytesSent: number;
  framesReceived: number;
  bytesReceived: number;
}

export interface RouteDescription {
  route: LinkRoute;
  /** Round-trip time in milliseconds; `null` if the transport does not measure it. */
  roundTripMs: number | null;
}

export interface LinkDescription extends RouteDescription {
  /** Number of WebRTC connections over which frames are distributed; 0 for other transports. */
  connections: number;
}

/** Description of a closed link, or of a transport that reports nothing. */
export const UNKNOWN_LINK_DESCRIPTION: LinkDescription = { route: 'unknown', roundTripMs: null, connections: 0 };

export interface Link {
  /**
   * Queues one frame (1 .. MAX_FRAME_BYTES bytes) and takes ownership of it: the buffer may be
   * transferred and must not be used again. Frames arrive whole and in order. Resolves when the
   * queue is below its limit. A sender that awaits the promise before it sends the next frame
   * cannot fill the memory.
   *
   * @throws (rejects) PeerGoneError once the link is closed, UsageError for an invalid size.
   */
  send(frame: ArrayBuffer): Promise<void>;
  /**
   * Called with each frame that arrives. The handler owns the frame. Frames are queued until a
   * handler is set.
   */
  onframe: ((frame: ArrayBuffer) => void) | null;
  /**
   * Called once when either side closes the link, or with an error when the link breaks. A handler
   * that is set afterwards is called immediately.
   */
  onclose: ((error: Error | null) => void) | null;
  /**
   * Called with `true` when nothing has arrived for some seconds although the other end should have
   * answered, and with `false` when something arrives again. Only WebRTC reports this.
   */
  onstall?: ((isStalled: boolean) => void) | null;
  readonly state: LinkState;
  readonly counters: Readonly<LinkTrafficCounters>;
  /**
   * Bytes of frames that have not left this machine. Missing if the transport does not know the
   * number.
   */
  readonly unsentBytes?: number;
  /**
   * Drops the frames of a generation that wait in the link's own queue, and settles their sends. A
   * link without such a queue does not have this method.
   */
  discard?(generation: number): void;
  /**
   * Resolves with `false` if nothing arrives within `ms` milliseconds, although the other end was
   * asked for an answer. The other end may only be busy. The method is missing if the transport
   * itself notices that the other end is gone.
   */
  answers?(ms: number): Promise<boolean>;
  /** Describes the route of the bytes, as far as the implementation knows it. */
  describe(): Promise<LinkDescription>;
  /**
   * Closes both sides. Frames that were sent before `close` may be lost. So receivers must
   * acknowledge frames that must arrive. Idempotent.
   */
  close(): void;
}

/**
 * A send waits if the link's queue has at least this number of bytes. The number is high enough to
 * keep a fast connection busy through a scheduling pause (1 MiB is 8 ms at 1 Gbit/s), and low
 * enough that the queue of a slow connection does not use much of a tab's memory.
 */
export const HIGH_WATER_BYTES = 1024 * 1024;

/**
 * Minimum number of bytes that is counted for a frame that waits. Even a frame without payload uses
 * a few hundred bytes of memory.
 */
const MIN_FRAME_BYTES = 512;

/** Returns the number of bytes that is counted for a frame that waits in a bounded queue. */
export function queuedFrameBytesOf({ byteLength }: ArrayBuffer): number {
  return Math.max(byteLength, MIN_FRAME_BYTES);
}

/** @throws UsageError if a frame is empty, or too large for some browsers' data channels. */
export function checkFrameSize(frame: ArrayBuffer): void {
  if (frame.byteLength < 1 || frame.byteLength > MAX_FRAME_BYTES) {
    throw new UsageError(`A frame must have 1 to ${MAX_FRAME_BYTES} bytes, not ${frame.byteLength}.`);
  }
}
