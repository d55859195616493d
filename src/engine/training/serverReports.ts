/** What a rank reports to the server during a run. */
import type { ClientMessage } from '../../protocol/control.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { Clock } from '../../util/clock.ts';
import { SlowLink } from './telemetry/slowLink.ts';

/** Milliseconds between two reports of progress. The server's deadline is six times as long. */
const REPORT_MS = 20_000;

export type ServerReport = Extract<ClientMessage, { type: 'slow' | 'busy' | 'syncing' }>;

export class ServerReports {
  readonly #clock: Clock;
  readonly #send: (message: ServerReport) => void;
  readonly #slowLink = new SlowLink();
  #reportedAt = -Infinity;
  /** Bytes of files that had arrived at the latest report. */
  #bytes = 0;

  constructor(clock: Clock, send: (message: ServerReport) => void) {
    this.#clock = clock;
    this.#send = send;
  }

  /** Reports what follows from an event of the run. */
  observe(event: EngineEvent): void {
    const slow = this.#slowLink.observe(event);
    if (slow) this.#send({ type: 'slow', ...slow });
    if (event.type !== 'file-distribution') return;
    const bytes = event.bytesPerRank.reduce((sum, each) => sum + each, 0);
    if (bytes !== this.#bytes && this.syncing(event.generation)) this.#bytes = bytes;
  }

  /**
   * Reports that SYNCING makes progress, so that the server extends its deadline.
   *
   * @returns whether it was reported; `false` if the latest report is recent.
   */
  syncing(generation: number): boolean {
    const now = this.#clock.now();
    if (now - this.#reportedAt < REPORT_MS) return false;
    this.#reportedAt = now;
    this.#send({ type: 'syncing', generation });
    return true;
  }

  /** Reports that passes may block this tab's messages for `ms` milliseconds. */
  announceSilence(ms: number): void {
    this.#send({ type: 'busy', ms });
  }
}
