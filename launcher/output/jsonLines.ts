/** Writes JSON lines to stderr, one event per line, in the format of the server's log. */
import { pino } from 'pino';
import type { Io } from '../io.ts';

/** Returns an `Io` that logs JSON lines. Messages that are not events become the event `note`. */
export function toJsonLines(io: Io): Io {
  const log = pino({ base: null }, { write: (line: string) => io.err(line.trimEnd()) });
  return {
    ...io,
    err: (line) => log.info({ event: 'note' }, line),
    // Without a terminal, no progress bar appears between the JSON lines.
    terminal: null,
    logEvent: (event, fields, message) => log.info({ event, ...fields }, message),
  };
}
