/**
 * stderr as JSON lines, for programs that collect logs: an event a line, with the fields that the
 * server's log has.
 */
import { pino } from 'pino';
import type { Io } from '../io.ts';

/** What a command says, as JSON lines: what people would read is the event `note`. */
export function inJsonLines(io: Io): Io {
  const log = pino({ base: null }, { write: (line: string) => io.err(line.trimEnd()) });
  return {
    ...io,
    err: (line) => log.info({ event: 'note' }, line),
    // No bar between the lines.
    terminal: null,
    tell: (event, fields, message) => log.info({ event, ...fields }, message),
  };
}
