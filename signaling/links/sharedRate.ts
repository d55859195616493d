/**
 * Divides one rate among all links through the server. While the rate is not used up, every
 * direction of a link sends as it likes. Beyond it, a direction that has sent waits for its turn.
 * Rooms with waiting directions have equal shares, and so have the waiting directions of a room.
 * Nothing is stored here: bytes of a direction that waits stay with their sender.
 */
import type { Clock } from '../../src/util/clock.ts';
import { UsageError } from '../../src/util/errors.ts';

/** The lowest rate. With it, a frame takes 0.7 s. */
export const MIN_BYTES_PER_SECOND = 1e5;
/**
 * Unused rate may be used later, up to this number of milliseconds or of bytes, whichever is more.
 * Timers may be late, and one read of a socket is 64 KiB.
 */
const BURST_MS = 50;
const BURST_BYTES = 128 * 1024;

interface RoomUse {
  /** See {@link RateShare.used}. */
  used: number;
  /** `used` of the direction of this room whose turn was last. */
  reached: number;
  readonly waiting: Set<RateShare>;
  /** Counted bytes of the room that the server has read, and that wait for their targets. */
  backlog: number;
  /** Number of the room's directions. */
  shares: number;
}

/** One direction of a link. */
export interface RateShare {
  readonly code: string;
  readonly room: RoomUse;
  /** Called when the direction may send again. */
  readonly proceed: () => void;
  /**
   * Bytes sent while the rate was used up. A direction that sent less than the one whose turn was
   * last counts as if it had sent as much, so unused turns do not add up.
   */
  used: number;
  /** Bytes sent since its last turn began. */
  inTurn: number;
}

export class SharedRate {
  readonly #clock: Clock;
  readonly #bytesPerMs: number;
  readonly #burst: number;
  readonly #rooms = new Map<string, RoomUse>();
  /** Bytes that may be sent now; negative if too many were sent. */
  #left: number;
  #at: number;
  /** Number of waiting directions. */
  #waiting = 0;
  /** `used` of the room whose turn was last. */
  #reached = 0;
  /** Cancels the timer. There is a timer only while a direction waits. */
  #cancel: (() => void) | null = null;

  /** @throws UsageError for a rate that is too low. */
  constructor(clock: Clock, bytesPerSecond: number) {
    if (!(bytesPerSecond >= MIN_BYTES_PER_SECOND && Number.isFinite(bytesPerSecond))) {
      throw new UsageError(
        `The rate of links through the server must be at least ${MIN_BYTES_PER_SECOND / 1e6} MB/s, ` +
          `not ${bytesPerSecond / 1e6}. Pass a valid rate with --server-links-rate.`,
      );
    }
    this.#clock = clock;
    this.#bytesPerMs = bytesPerSecond / 1000;
    this.#burst = Math.max(BURST_BYTES, this.#bytesPerMs * BURST_MS);
    this.#left = this.#burst;
    this.#at = clock.now();
  }

  /** Number of rooms with links. */
  get rooms(): number {
    return this.#rooms.size;
  }

  /** Adds a direction of a link in the room `code`. */
  join(code: string, proceed: () => void): RateShare {
    const room = this.#rooms.get(code) ?? { used: 0, reached: 0, waiting: new Set(), backlog: 0, shares: 0 };
    this.#rooms.set(code, room);
    room.shares++;
    return { code, room, proceed, used: 0, inTurn: 0 };
  }

  /** Removes a direction. */
  leave(share: RateShare): void {
    const { code, room } = share;
    if (room.waiting.delete(share)) this.#waiting--;
    if (--room.shares === 0) this.#rooms.delete(code);
    if (this.#waiting === 0) this.#stop();
  }

  /**
   * Counts bytes that a direction has sent. Returns whether it may send more. If not, `proceed` is
   * called when it may.
   */
  take(share: RateShare, bytes: number): boolean {
    this.#refill();
    this.#left -= bytes;
    if (this.#left >= 0 && this.#waiting === 0) return true;
    const { room } = share;
    room.used = Math.max(room.used, this.#reached) + bytes;
    share.used = Math.max(share.used, room.reached) + bytes;
    share.inTurn += bytes;
    if (!room.waiting.has(share)) this.#waiting++;
    room.waiting.add(share);
    if (this.#cancel === null) this.#proceedIn(-this.#left / this.#bytesPerMs);
    return false;
  }

  #refill(): void {
    const now = this.#clock.now();
    this.#left = Math.min(this.#burst, this.#left + (now - this.#at) * this.#bytesPerMs);
    this.#at = now;
  }

  #proceedIn(ms: number): void {
    this.#cancel = this.#clock.after(Math.max(1, Math.ceil(ms)), () => this.#proceed());
  }

  #stop(): void {
    this.#cancel?.();
    this.#cancel = null;
  }

  /** Gives as many turns as the rate allows, if each sends as much as in the turn before. */
  #proceed(): void {
    this.#cancel = null;
    this.#refill();
    let left = this.#left;
    while (left >= 0 && this.#waiting > 0) {
      const share = this.#next();
      left -= share.inTurn;
      share.inTurn = 0;
      share.proceed();
    }
    if (this.#waiting > 0 && this.#cancel === null) this.#proceedIn(-left / this.#bytesPerMs);
  }

  /**
   * Returns the waiting direction that has used least, of the room that has used least. It no
   * longer waits.
   */
  #next(): RateShare {
    const room = leastUsed([...this.#rooms.values()].filter(({ waiting }) => waiting.size > 0));
    const share = leastUsed(room.waiting);
    room.waiting.delete(share);
    this.#waiting--;
    this.#reached = Math.max(this.#reached, room.used);
    room.reached = Math.max(room.reached, share.used);
    return share;
  }
}

function leastUsed<One extends { readonly used: number }>(all: Iterable<One>): One {
  let least: One | null = null;
  for (const one of all) if (least === null || one.used < least.used) least = one;
  return least!;
}
