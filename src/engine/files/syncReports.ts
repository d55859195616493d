/** Keeps the server's deadline for SYNCING from expiring while ranks distribute files. */
import type { ClientMessage } from '../../protocol/control.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { Clock } from '../../util/clock.ts';

/** Milliseconds between two reports. The server waits six times as long. */
const REPORT_MS = 20_000;

export class SyncReports {
  readonly #clock: Clock;
  #latest = { at: 0, bytes: 0 };

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Returns the report that is due after `event`; `null` if no report is due, or no bytes have
   * arrived.
   */
  observe(event: EngineEvent): Extract<ClientMessage, { type: 'syncing' }> | null {
    if (event.type !== 'file-distribution') return null;
    const total = event.bytesPerRank.reduce((sum, bytes) => sum + bytes, 0);
    const now = this.#clock.now();
    if (now - this.#latest.at < REPORT_MS || total === this.#latest.bytes) return null;
    this.#latest = { at: now, bytes: total };
    return { type: 'syncing', generation: event.generation };
  }
}
