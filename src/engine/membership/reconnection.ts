/** Decides when a lost connection to the server is opened again, and when to give up. */
import type { Clock } from '../../util/clock.ts';

/**
 * Milliseconds before the first attempt to reconnect. Each further wait is twice as long, up to
 * {@link MAX_WAIT_MS}. A random time is added to each wait, at most as long as the wait.
 */
const FIRST_WAIT_MS = 250;
const MAX_WAIT_MS = 4_000;
/**
 * Milliseconds without the server after which a tab gives up. A member that trains does not give
 * up.
 */
const AWAY_MS = 60_000;

export class Reconnection {
  readonly #clock: Clock;
  readonly #random: () => number;
  /** The time when the server was lost; `null` while it is connected. */
  #lostAt: number | null = null;
  #attempts = 0;
  #cancel: () => void = () => {};

  constructor(clock: Clock, random: () => number) {
    this.#clock = clock;
    this.#random = random;
  }

  get isLost(): boolean {
    return this.#lostAt !== null;
  }

  /**
   * Whether the server has been unreachable for so long that a member that does not train gives up.
   */
  get isOverdue(): boolean {
    return this.#lostAt !== null && this.#clock.now() - this.#lostAt > AWAY_MS;
  }

  lose(): void {
    this.#lostAt ??= this.#clock.now();
  }

  /** Called when the server has admitted this member. */
  succeed(): void {
    this.#lostAt = null;
    this.#attempts = 0;
  }

  /** Calls `connect` after a wait. */
  schedule(connect: () => void): void {
    const wait = Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** this.#attempts++);
    // Without the random part, the members of all rooms would connect at the same moment.
    this.#cancel = this.#clock.after(wait * (1 + this.#random()), connect);
  }

  cancel(): void {
    this.#cancel();
  }
}
