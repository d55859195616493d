/**
 * A benchmark is a command and a section of docs/BENCHMARKS.md. This file defines both from one
 * description.
 */
import type { Command, Option } from 'commander';
import type { Io } from '../../launcher/io.ts';
import { PeergradError } from '../../src/util/errors.ts';

export interface Benchmark {
  readonly name: string;
  /** Adds description, options and action to a command. */
  readonly describe: (command: Command, io: Io) => void;
  /** Returns the section of docs/BENCHMARKS.md for the object that `--json` prints. */
  readonly section: (result: unknown) => string;
}

export interface Definition<Options, Result> {
  name: string;
  description: string;
  options: readonly Option[];
  /** Resolves with `null` if the options ask for something else than a measurement. */
  measure: (options: Options, io: Io) => Promise<Result | null>;
  /** Returns the section of docs/BENCHMARKS.md. */
  section: (result: Result) => string;
  /** Returns what the command prints. Default: the section. */
  text?: (result: Result) => string;
  /** Draws a chart of the result to a PNG file, for the option `--picture`. */
  draw?: (result: Result, file: string) => Promise<void>;
  /** Returns a clause for each part of a result that is wrong. Then the command fails. */
  problemsOf?: (result: Result) => string[];
}

/**
 * Defines a benchmark. `Options` is the type of the parsed `options`. `Result` is the type of the
 * object that is printed as JSON.
 */
export function defineBenchmark<Options, Result>(definition: Definition<Options, Result>): Benchmark {
  const { name, description, options, measure, section, text = section, draw, problemsOf = () => [] } = definition;
  const run = async (given: Options, { picture, json }: { picture?: string; json?: true }, io: Io): Promise<void> => {
    const result = await measure(given, io);
    if (result === null) return;
    io.out(json ? JSON.stringify(result) : text(result).trim());
    if (picture !== undefined) await draw!(result, picture);
    const problems = problemsOf(result);
    if (problems.length > 0) throw new PeergradError(`${name} failed its checks: ${problems.join('; ')}.`);
  };
  return {
    name,
    section: (result) => section(result as Result),
    describe(command, io) {
      command.description(description);
      for (const option of options) command.addOption(option);
      if (draw) command.option('--picture <file>', 'PNG file for a chart of the result');
      command
        .option('--json', 'print the result as JSON on the final line of stdout')
        .action((given: Options & object) => run(given, given, io));
    },
  };
}
