/** Decides when a lost connection to the server is opened again, and when to give up. */
import type { ThreadActivity } from '../../util/activity.ts';
import type { Clock } from '../../util/clock.ts';
import { createDebugLog } from '../../util/debugLog.ts';

/**
 * Milliseconds before the first attempt to reconnect. Each further wait is twice as long, up to
 * {@link MAX_WAIT_MS}. A random time is added to each wait, at most as long as the wait.
 */
const FIRST_WAIT_MS = 250;
const MAX_WAIT_MS = 4_000;
/**
 * A tab gives up after this number of milliseconds without the server, or later if its line is
 * busy. A member that trains does not give up.
 */
const AWAY_MS = 60_000;
/**
 * The longest time in milliseconds that a wait and the attempt after it may take: 8 s, 10 s until
 * the connection is open, and 15 s until the server admits the member. On a busy line, the
 * connection and the admission may take longer. If a wait and its attempt take longer than all
 * this, the machine has slept.
 */
const ROUND_MS = 35_000;

const log = createDebugLog('membership');

interface ReconnectionOptions {
  clock: Clock;
  random: () => number;
  activity: ThreadActivity;
}

export class Reconnection {
  readonly #options: ReconnectionOptions;
  /** The time up to which {@link #awayMs} is counted; `null` while the server is connected. */
  #countedAt: number | null = null;
  /** Milliseconds for which the server has been lost. */
  #awayMs = 0;
  #attempts = 0;
  /** The next attempt to reconnect, until it begins; otherwise `null`. */
  #waiting: { connect: () => void; cancel: () => void } | null = null;

  constructor(options: ReconnectionOptions) {
    this.#options = options;
  }

  get isLost(): boolean {
    return this.#countedAt !== null;
  }

  /**
   * Whether the server has been unreachable for so long that a member that does not train gives up.
   */
  get isOverdue(): boolean {
    return this.#awayMs > this.#options.activity.answerMs(AWAY_MS);
  }

  /** Called when the server is lost, and after each attempt that has failed. */
  lose(): void {
    const { clock, activity } = this.#options;
    const now = clock.now();
    const roundMs = now - (this.#countedAt ?? now);
    // A machine that has slept needs some time until its network works again, so the time without
    // the server counts from now.
    this.#awayMs = roundMs > ROUND_MS + 2 * activity.answerMs(0) ? 0 : this.#awayMs + roundMs;
    this.#countedAt = now;
  }

  /** Called when the server has admitted this member. */
  succeed(): void {
    this.#countedAt = null;
    this.#awayMs = 0;
    this.#attempts = 0;
  }

  /** Calls `connect` after a wait. */
  schedule(connect: () => void): void {
    const wait = Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** this.#attempts++);
    // Without the random part, the members of all rooms would connect at the same moment.
    const { clock, random } = this.#options;
    const ms = wait * (1 + random());
    log(() => `Attempt ${this.#attempts} to reach the server again follows in ${Math.round(ms)} ms.`);
    const cancel = clock.after(ms, () => this.#connect());
    this.#waiting = { connect, cancel };
  }

  /** Begins a new series of attempts, because the network may be back. The first is made now. */
  restart(): void {
    this.#awayMs = 0;
    this.#attempts = 0;
    this.#connect();
  }

  cancel(): void {
    this.#waiting?.cancel();
    this.#waiting = null;
  }

  #connect(): void {
    const connect = this.#waiting?.connect;
    this.cancel();
    connect?.();
  }
}
