/** The benchmarks' command line: `npm run -s bench -- <name> ...`. */
import type { Io } from '../../launcher/io.ts';
import { createProgram, runProgram } from '../../launcher/options/program.ts';
import { benchAll, type AllOptions } from './all.ts';
import { allReduce } from '../allreduce.ts';
import { auto } from '../auto.ts';
import { balance } from '../balance.ts';
import { blockedPage } from '../blockedPage.ts';
import { classroom } from '../classroom.ts';
import { codecs } from '../codecs.ts';
import { curves } from '../curves.ts';
import { type Benchmark } from './defineBenchmark.ts';
import { distance } from '../distance.ts';
import { distribution } from '../distribution.ts';
import { fit } from '../fit.ts';
import { goals } from '../goals.ts';
import { gpu } from '../gpu.ts';
import { lines } from '../lines.ts';
import { link } from '../link.ts';
import { methods } from '../methods.ts';
import { optimizer } from '../optimizer.ts';
import { order } from '../order.ts';
import { pageTasks } from '../pageTasks.ts';
import { pipeline } from '../pipeline.ts';
import { scale } from '../scale.ts';
import { signaling } from '../signaling.ts';
import { step } from '../step.ts';
import { strategies } from '../strategies.ts';
import { digitsOption, listOf } from './options.ts';

const BENCHMARKS: readonly Benchmark[] = [
  strategies,
  curves,
  signaling,
  allReduce,
  link,
  distribution,
  distance,
  goals,
  lines,
  optimizer,
  fit,
  scale,
  codecs,
  methods,
  step,
  gpu,
  auto,
  order,
  balance,
  pageTasks,
  blockedPage,
  classroom,
  pipeline,
];

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
