/** Output and exit codes of all command lines of this project. */
import { Command, CommanderError } from 'commander';
import { errorMessageOf, UsageError } from '../../src/util/errors.ts';
import type { Io } from '../io.ts';

const EXIT_OK = 0;
const EXIT_FAILED = 1;
const EXIT_USAGE = 2;
const EXIT_INTERRUPTED = 130;

/** Creates a program without commands. */
export function createProgram(name: string, description: string, io: Io): Command {
  return new Command(name)
    .description(description)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.out(text.trimEnd()),
      writeErr: (text) => io.err(text.trimEnd()),
      // Commander does not print errors, because runProgram logs them.
      outputError: () => {},
    });
}

/**
 * Runs one command line (without `node` and the script), and resolves with the exit code. Never
 * rejects: if the exit code is not 0, it writes the reason to `io.err`.
 */
export async function runProgram(program: Command, argv: readonly string[], io: Io): Promise<number> {
  const name = program.name();
  try {
    await program.parseAsync(argv, { from: 'user' });
    return io.signal.aborted ? EXIT_INTERRUPTED : EXIT_OK;
  } catch (error) {
    if (io.signal.aborted) {
      io.err(`${name}: interrupted.`);
      return EXIT_INTERRUPTED;
    }
    if (error instanceof CommanderError) {
      // Commander has printed the help or the version.
      if (error.exitCode === 0) return EXIT_OK;
      // Without a command, commander has printed the help.
      if (error.code !== 'commander.help') {
        const what = error.message.replace(/^error: /, '').replaceAll('\n', ' ');
        io.err(`${name}: ${what.replace(/([^.?)])$/, '$1.')} See --help.`);
      }
      return EXIT_USAGE;
    }
    io.err(`${name}: ${errorMessageOf(error)}`);
    return error instanceof UsageError ? EXIT_USAGE : EXIT_FAILED;
  }
}
