/** Defines a benchmark: its command, and its part of docs/BENCHMARKS.md. */
import type { Option } from 'commander';
import type { Io } from '../../launcher/io.ts';

export interface Benchmark {
  readonly name: string;
  readonly description: string;
  /** Options besides `--json`. */
  readonly options: readonly Option[];
  readonly run: (options: unknown, io: Io) => Promise<void>;
  /** Part of docs/BENCHMARKS.md, from the object that `--json` prints; `null`: it has none. */
  readonly section: ((result: unknown) => string) | null;
}

interface Definition<Options, Result> {
  name: string;
  description: string;
  options: readonly Option[];
  run: (options: Options, io: Io) => Promise<void>;
  section?: (result: Result) => string;
}

/** `Options` are the parsed `options`; `Result` is the object that `run` prints as JSON. */
export function defineBenchmark<Options extends { json?: true }, Result = never>(
  definition: Definition<Options, Result>,
): Benchmark {
  const { name, description, options, run, section } = definition;
  return {
    name,
    description,
    options,
    run: (given, io) => run(given as Options, io),
    section: section === undefined ? null : (result) => section(result as Result),
  };
}
