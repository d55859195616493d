/** The benchmarks' command line: `npm run -s bench -- <name> ...`. */
import type { Io } from '../../launcher/io.ts';
import { createProgram, runProgram } from '../../launcher/options/program.ts';
import { benchAll, BENCHMARKS, type AllOptions } from './all.ts';
import { digitsOption, listOf } from './options.ts';

/** Runs one command line (without `node` and the script); see {@link runProgram}. */
export function runBench(argv: readonly string[], io: Io): Promise<number> {
  const program = createProgram('bench', 'Measures peergrad on this machine, in headless tabs or in Node.', io);
  for (const benchmark of BENCHMARKS) benchmark.describe(program.command(benchmark.name), io);
  program
    .command('all')
    .description('run all benchmarks in less than an hour, and write their results to docs/BENCHMARKS.md')
    .addOption(digitsOption())
    .option('--only <name,..>', 'benchmarks to run; the results of other benchmarks stay on the page', listOf(String))
    .action((options: AllOptions) => benchAll(options, io));
  return runProgram(program, argv, io);
}
