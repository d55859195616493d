/**
 * Runs a command in this process: a signal aborts the command, and the result of the command
 * becomes the exit code. All other code of a command can be tested without a process.
 */
import { once } from 'node:events';
import { errorMessageOf } from '../src/util/errors.ts';
import type { Io } from './io.ts';

/** Exit codes after a signal: 128 plus the signal's number. */
const SIGNAL_EXITS = [
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['SIGHUP', 129],
] as const;
/** Milliseconds to close browsers and server after a signal. Then the process exits in any case. */
const CLOSE_MS = 5_000;

/**
 * A second signal within this time, in milliseconds, is the same Ctrl-C. The terminal sends the
 * signal to all processes, and tsx also forwards its own copy to this process.
 */
const SAME_SIGNAL_MS = 500;

/** Runs `main` with this process's arguments and exits with the code that it returns. */
export async function runProcess(
  name: string,
  main: (argv: readonly string[], io: Io) => Promise<number>,
): Promise<void> {
  const controller = new AbortController();
  let signalExit: number | null = null;
  let signalledAt = 0;
  for (const [signal, code] of SIGNAL_EXITS) {
    process.on(signal, () => {
      if (signalExit !== null) {
        // A second Ctrl-C exits immediately.
        if (Date.now() - signalledAt > SAME_SIGNAL_MS) process.exit(code);
        return;
      }
      signalExit = code;
      signalledAt = Date.now();
      controller.abort();
      setTimeout(() => process.exit(code), CLOSE_MS).unref();
    });
  }
  process.on('uncaughtException', (error) => {
    process.stderr.write(`${name}: internal error: ${errorMessageOf(error)}\n`);
    process.exit(signalExit ?? 1);
  });
  const code = await main(process.argv.slice(2), {
    out: (line) => void process.stdout.write(`${line}\n`),
    err: (line) => void process.stderr.write(`${line}\n`),
    terminal: process.stderr.isTTY ? process.stderr : null,
    signal: controller.signal,
  });
  // If a pipe has not taken a long result completely yet, exit() would truncate it.
  if (process.stdout.writableLength > 0) await once(process.stdout, 'drain');
  process.exit(signalExit ?? code);
}
