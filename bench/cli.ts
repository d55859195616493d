/** The benchmarks' command line: `npm run -s bench -- <name> ...`. */
import { InvalidArgumentError, Option } from 'commander';
import { benchAuto, type AutoBenchOptions } from './auto/bench.ts';
import type { Io } from '../launcher/io.ts';
import { wholeNumber } from '../launcher/options/jobOptions.ts';
import { createProgram, runProgram } from '../launcher/options/program.ts';
import { MAX_WORLD_SIZE } from '../src/protocol/scalars.ts';
import { MAX_SHARED_BYTES } from '../src/spec/fileManifest.ts';
import { STRATEGY_NAMES, TRANSPORT_NAMES, type StrategyName } from '../src/spec/job.ts';
import { benchAll, type AllOptions } from './all/bench.ts';
import { benchAllReduce, type AllReduceBenchOptions } from './allreduce/bench.ts';
import { benchCodecs, type CodecsBenchOptions } from './codecs/bench.ts';
import { benchCurves, type CurvesOptions } from './curves/bench.ts';
import { benchLines, type LinesBenchOptions } from './lines/bench.ts';
import { benchLink, type LinkBenchOptions } from './link/bench.ts';
import { benchOptimizer, type OptimizerBenchOptions } from './optimizer/bench.ts';
import { benchOrder, type OrderBenchOptions } from './order/bench.ts';
import { benchScale, type ScaleOptions } from './scale/bench.ts';
import { benchSignaling, type SignalingBenchOptions } from './signaling/bench.ts';
import { benchSpread, type SpreadBenchOptions } from './spread/bench.ts';
import { benchStep, type StepBenchOptions } from './step/bench.ts';
import { benchTelemetry, type TelemetryBenchOptions } from './telemetry/bench.ts';
import { benchStrategies, type StrategiesOptions } from './strategies/bench.ts';

/** Clients from one address to one port: each has a port of its own, and Linux gives out 28 000. */
const MAX_CLIENTS = 20_000;

/** Adam's state of as many takes 2 GB, and the arrays of the benchmark as much again. */
const MAX_PARAMETERS = 100_000_000;
/** Ranks that a simulation has time for. */
const MAX_SIMULATED = 1024;

/** Of every tab: more would fill a machine's memory with 8. */
const MAX_TENSOR_BYTES = 2 ** 28;

/** Runs one command line (without `node` and the script); see {@link runProgram}. */
export function runBench(argv: readonly string[], io: Io): Promise<number> {
  const program = createProgram(
    'bench',
    'Measures peergrad on this machine, in headless tabs or, the server, without.',
    io,
  );
  program
    .command('strategies')
    .description("each strategy's bytes per step against theory; fails where ring or parameter-server are off by 1 %")
    .option('--tabs <n,..>', 'world sizes', listOf(wholeNumber(2, MAX_WORLD_SIZE)), [2, 4, 8])
    .option('--strategies <name,..>', 'which of them', listOf(strategyName), [...STRATEGY_NAMES])
    .option('--json', 'print the result as one JSON object, last on stdout')
    .action((options: StrategiesOptions) => benchStrategies(options, io));
  program
    .command('curves')
    .description(
      'loss curves of all strategies, into docs/STRATEGIES.md and docs/strategies.png; fails where a synchronous one ' +
        'differs from one tab, or another ends 2 points below the ring',
    )
    .requiredOption('--data <folder>', "MNIST's IDX files")
    .option('--json', 'print the result as one JSON object, last on stdout')
    .action((options: CurvesOptions) => benchCurves(options, io));
  program
    .command('signaling')
    .description(
      `the server's memory per connection, time to relay a signal, and a crowd that joins at once; fails where one of them ` +
        'does not get in, or the crowd takes more than 5 s',
    )
    .option('--clients <n>', 'members that stay connected', wholeNumber(1, MAX_CLIENTS), 5000)
    .option('--storm <n>', 'members that join at once', wholeNumber(1, MAX_CLIENTS), 1000)
    .option('--json', 'print the result as one JSON object, last on stdout')
    .action((options: SignalingBenchOptions) => benchSignaling(options, io));
  program
    .command('telemetry')
    .description(
      'what it costs a step that ranks tell each other how they spend it: told and quiet stretches of one run',
    )
    .option('--tabs <n>', 'world size', wholeNumber(1, MAX_WORLD_SIZE), 4)
    .option('--steps <n>', 'steps of the run', wholeNumber(100, 1_000_000), 640)
    .option('--json', 'print the result as one JSON object, last on stdout')
    .action((options: TelemetryBenchOptions) => benchTelemetry(options, io));
  program
    .command('allreduce')
    .description(
      'all-reduces against bare data channels that push the same bytes round the same ring; without --bytes from 1 KiB to 16 MiB',
    )
    .option('--tabs <n,..>', 'world sizes', listOf(wholeNumber(2, MAX_WORLD_SIZE)), [2, 4, 8])
    .option('--bytes <n>', 'size of the tensor', wholeNumber(4, MAX_TENSOR_BYTES))
    .addOption(
      new Option('--transport <name>', 'how tabs are linked; auto: by message ports')
        .choices(TRANSPORT_NAMES)
        .default('webrtc'),
    )
    .option('--json', 'print the result as one JSON object, last on stdout')
    .action((options: AllReduceBenchOptions) => benchAllReduce(options, io));
  program
    .command('link')
    .description('what one link carries: a bare channel, a simple-peer link, the same in a worker, and a message port')
    .option('--json', 'print the result as one JSON object, last on stdout')
    .action((options: LinkBenchOptions) => benchLink(options, io));
  program
    .command('spread')
    .description('a file of rank 0, handed on from tab to tab, against bare data channels that carry as many bytes')
    .option('--tabs <n>', 'world size', wholeNumber(2, MAX_WORLD_SIZE), 4)
    .option('--bytes <n>', 'size of the file', wholeNumber(1, MAX_SHARED_BYTES), 20_000_000)
    .option('--json', 'print the result as one JSON object, last on stdout')
    .action((options: SpreadBenchOptions) => benchSpread(options, io));
  program
    .command('lines')
    .description('an all-reduce over capped lines, a browser on each of several test hosts; needs root and iproute2')
    .requiredOption('--hosts <script>', 'makes hosts on capped lines')
    .option('--tabs <n>', 'world size, and hosts', wholeNumber(2, MAX_WORLD_SIZE), 4)
    .option('--rate <mbit>', 'what each line carries, megabits a second', wholeNumber(1, 1000), 20)
    .option('--bytes <n>', 'size of the tensor', wholeNumber(4, MAX_TENSOR_BYTES), 4 * 2 ** 20)
    .option('--json', 'print the result as one JSON object, last on stdout')
    .action((options: LinesBenchOptions) => benchLines(options, io));
  program
    .command('optimizer')
    .description(
      'what a step does on the CPU beside the network: optimizers, average and state hash, against moving the bytes',
    )
    .option(
      '--parameters <n,..>',
      'sizes of the model',
      listOf(wholeNumber(1, MAX_PARAMETERS)),
      [1_000_000, 10_000_000],
    )
    .option('--json', 'print the result as one JSON object, last on stdout')
    .action((options: OptimizerBenchOptions) => benchOptimizer(options, io));
  program
    .command('scale')
    .description(
      'what an all-reduce costs as the world grows: the cost model fitted from tabs, its errors, and larger worlds simulated',
    )
    .option('--ranks <n>', 'largest world to simulate', wholeNumber(2, MAX_SIMULATED), MAX_SIMULATED)
    .option('--picture <file>', 'draws it, as PNG')
    .option('--json', 'print the result as one JSON object, last on stdout')
    .action((options: ScaleOptions) => benchScale(options, io));
  program
    .command('codecs')
    .description(
      'how much sooner an encoded all-reduce ends, and what a model learns by it; fails where a codec is less accurate than it may be',
    )
    .option('--tabs <n>', 'world size', wholeNumber(2, MAX_WORLD_SIZE), 4)
    .option('--bytes <n>', 'of the all-reduce', wholeNumber(4), 4 * 2 ** 20)
    .option('--rounds <n>', 'all-reduces by each codec', wholeNumber(1), 5)
    .option('--hosts <script>', 'makes hosts on capped lines, on which to measure too')
    .option('--rate <rate>', 'what each of them receives at most', '20mbit')
    .option('--seeds <n>', 'training runs of each kind', wholeNumber(1), 3)
    .option('--epochs <n>', 'passes of each', wholeNumber(1), 5)
    .option('--data <folder>', "MNIST's IDX files; without them digits are drawn")
    .option('--json', 'print the result as one JSON object, last on stdout')
    .action((options: CodecsBenchOptions) => benchCodecs(options, io));
  program
    .command('step')
    .description(
      'where the time of a step goes: a world of one beside plain TensorFlow.js, and several ranks by size of buckets',
    )
    .option('--tabs <n>', 'world size of the several', wholeNumber(2, MAX_WORLD_SIZE), 2)
    .option('--hosts <tool>', 'has them on hosts of their own, which this makes; needs root')
    .option(
      '--rate <mbit>',
      "what the hosts' lines carry, megabits a second; by default communication takes as long as compute",
      wholeNumber(1, 1000),
    )
    .option('--picture <file>', 'draws step time over size of buckets, as PNG')
    .option('--json', 'print the result as one JSON object, last on stdout')
    .action((options: StepBenchOptions) => benchStep(options, io));
  program
    .command('auto')
    .description('how much sooner a run reaches 90 % on slow lines whose ranks choose their codec; needs root')
    .option('--tabs <n>', 'world size', wholeNumber(2, MAX_WORLD_SIZE), 4)
    .requiredOption('--data <folder>', "MNIST's IDX files")
    .requiredOption('--hosts <script>', 'makes hosts on capped lines')
    .option('--json', 'print the result as one JSON object, last on stdout')
    .action((options: AutoBenchOptions) => benchAuto(options, io));
  program
    .command('order')
    .description('what it saves that ranks with a slow link between them are parted; needs root')
    .requiredOption('--data <folder>', "MNIST's IDX files")
    .requiredOption('--hosts <script>', 'makes hosts on capped lines')
    .option('--json', 'print the result as one JSON object, last on stdout')
    .action((options: OrderBenchOptions) => benchOrder(options, io));
  program
    .command('all')
    .description('all of docs/BENCHMARKS.md, one after the other, in less than half an hour; writes it anew')
    .option('--data <folder>', "MNIST's IDX files; without them digits are drawn")
    .option('--hosts <script>', 'makes hosts on capped lines, as root; without it, what needs them is left out')
    .option('--only <name,..>', 'only these; the rest of the page stays as it is', listOf(String))
    .action((options: AllOptions) => benchAll(options, io));
  return runProgram(program, argv, io);
}

function listOf<Value>(parse: (text: string) => Value) {
  return (text: string): Value[] => text.split(',').map(parse);
}

function strategyName(text: string): StrategyName {
  const name = STRATEGY_NAMES.find((known) => known === text);
  if (name === undefined) throw new InvalidArgumentError(`Allowed choices are ${STRATEGY_NAMES.join(', ')}.`);
  return name;
}
