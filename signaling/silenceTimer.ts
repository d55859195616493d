/** Detects that a tab has sent nothing for too long. */
import type { Clock } from '../src/util/clock.ts';
import type { Limits } from './limits.ts';

export class SilenceTimer {
  readonly #clock: Clock;
  readonly #limits: Pick<Limits, 'silentMs'>;
  readonly #onsilent: (message: string) => void;
  #receivedAt: number;
  #lateMs = 0;
  #cancel: () => void;

  /**
   * Waits for the first message.
   *
   * @param onsilent called once, with a message for the tab.
   */
  constructor(clock: Clock, limits: Pick<Limits, 'silentMs' | 'firstMessageMs'>, onsilent: (message: string) => void) {
    this.#clock = clock;
    this.#limits = limits;
    this.#onsilent = onsilent;
    this.#receivedAt = clock.now();
    this.#cancel = clock.after(limits.firstMessageMs, () =>
      onsilent('This tab has sent no message on this connection. Reload the page.'),
    );
  }

  /** Records that the tab has sent a message. */
  received(): void {
    this.#receivedAt = this.#clock.now();
  }

  /** Waits longer, because the tab's line may delay its messages by `ms`. */
  allow(ms: number): void {
    this.#lateMs = ms;
  }

  /** Sleeps until the silence would be too long, and then checks again. */
  watch(): void {
    this.#cancel();
    const silentMs = Math.max(this.#limits.silentMs, this.#lateMs);
    const rest = this.#receivedAt + silentMs - this.#clock.now();
    if (rest <= 0) {
      this.#onsilent(
        `The server received nothing from this tab for ${Math.round(silentMs / 1000)} s. Reload the page.`,
      );
      return;
    }
    this.#cancel = this.#clock.after(rest, () => this.watch());
  }

  stop(): void {
    this.#cancel();
  }
}
