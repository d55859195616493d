/** Decides when a lost connection to the server is opened again. */
import type { Clock } from '../../util/clock.ts';

/**
 * First wait before another connection, milliseconds. Each further wait doubles; up to as much is
 * added at random.
 */
const FIRST_WAIT_MS = 250;
const MAX_WAIT_MS = 4_000;
/**
 * Milliseconds that the server may be away from a member that does not train, or from a tab that
 * asks for admission.
 */
const AWAY_MS = 60_000;

export class Reconnection {
  readonly #clock: Clock;
  readonly #random: () => number;
  /** When the server was lost; `null` while it is connected. */
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

  /** Whether the server has been away for too long, unless this member trains. */
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
    // Members of all rooms should not connect at the same moment.
    this.#cancel = this.#clock.after(wait * (1 + this.#random()), connect);
  }

  cancel(): void {
    this.#cancel();
  }
}
