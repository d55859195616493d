/** The benchmarks' command line: `npm run -s bench -- <name> ...`. */
import type { Io } from '../../launcher/io.ts';
import { createProgram, runProgram } from '../../launcher/options/program.ts';
import { benchAll, BENCHMARKS, type AllOptions } from './all.ts';
import { digitsOption, listOf } from './options.ts';

/** Runs one command line (without `node` and the script); see {@link runProgram}. */
export function runBench(argv: readonly string[], io: Io): Promise<number> {
  const program = createProgram('bench', 'Measures peergrad on this machine, in headless tabs or in Node.', io);
  for (const benchmark of BENCHMARKS) {
    const command = program.command(benchmark.name).description(benchmark.description);
    for (const option of benchmark.options) command.addOption(option);
    command
      .option('--json', 'print the result as one JSON object on the final line of stdout')
      .action((options: unknown) => benchmark.run(options, io));
  }
  program
    .command('all')
    .description('run all benchmarks in less than an hour, and write their results to docs/BENCHMARKS.md')
    .addOption(digitsOption())
    .option(
      '--hosts <script>',
      'path of the tool that creates hosts on capped lines, as root (default: skip benchmarks that need hosts)',
    )
    .option('--only <name,..>', 'benchmarks to run; the results of other benchmarks stay on the page', listOf(String))
    .action((options: AllOptions) => benchAll(options, io));
  return runProgram(program, argv, io);
}
