/**
 * Reports progress to the server while ranks distribute files. The server then extends its deadline
 * for SYNCING.
 */
import type { ClientMessage } from '../../protocol/control.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { Clock } from '../../util/clock.ts';

/** Milliseconds between two reports. The server's deadline is six times as long. */
const REPORT_MS = 20_000;

export class SyncReports {
  readonly #clock: Clock;
  #latest = { at: 0, bytes: 0 };

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Returns the report to send after `event`. Returns `null` if it is too early for a report, or if
   * no bytes have arrived since the last report.
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
