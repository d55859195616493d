/**
 * A benchmark is a command and a section of docs/BENCHMARKS.md. This file defines both from one
 * description.
 */
import type { Option } from 'commander';
import type { Io } from '../../launcher/io.ts';

export interface Benchmark {
  readonly name: string;
  readonly description: string;
  /** Options of the command, in addition to `--json`. */
  readonly options: readonly Option[];
  readonly run: (options: unknown, io: Io) => Promise<void>;
  /** Returns the section of docs/BENCHMARKS.md for the object that `--json` prints. */
  readonly section: (result: unknown) => string;
}

interface Definition<Options, Result> {
  name: string;
  description: string;
  options: readonly Option[];
  run: (options: Options, io: Io) => Promise<void>;
  section: (result: Result) => string;
}

/**
 * Defines a benchmark. `Options` is the type of the parsed `options`. `Result` is the type of the
 * object that `run` prints as JSON.
 */
export function defineBenchmark<Options extends { json?: true }, Result>(
  definition: Definition<Options, Result>,
): Benchmark {
  const { name, description, options, run, section } = definition;
  return {
    name,
    description,
    options,
    run: (given, io) => run(given as Options, io),
    section: (result) => section(result as Result),
  };
}
