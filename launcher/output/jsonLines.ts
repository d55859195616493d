/** stderr as JSON lines, one event per line, with the fields of the server's log. */
import { pino } from 'pino';
import type { Io } from '../io.ts';

/** An `Io` that logs JSON lines; plain messages become the event `note`. */
export function toJsonLines(io: Io): Io {
  const log = pino({ base: null }, { write: (line: string) => io.err(line.trimEnd()) });
  return {
    ...io,
    err: (line) => log.info({ event: 'note' }, line),
    // No progress bar between the lines.
    terminal: null,
    logEvent: (event, fields, message) => log.info({ event, ...fields }, message),
  };
}
