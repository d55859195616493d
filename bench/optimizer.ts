/**
 * `bench optimizer`: measures the CPU work of a step other than communication. It runs in Node,
 * which has the same V8 as a browser. Each kind of work is compared with a copy of the same arrays,
 * which only memory limits. All are measured in turn.
 */
import type { Io } from '../launcher/io.ts';
import { wholeNumber } from '../launcher/options/jobOptions.ts';
import { createOptimizer, type OptimizerName } from '../src/optim/index.ts';
import { OPTIMIZER_NAMES } from '../src/spec/names.ts';
import { divide } from '../src/util/divide.ts';
import { hashState } from '../src/util/hash.ts';
import { createRng } from '../src/util/rng.ts';
import { median } from '../src/util/statistics.ts';
import { defineBenchmark } from './command/defineBenchmark.ts';
import { listOf, option } from './command/options.ts';
import { table } from '../tools/report/table.ts';

interface OptimizerBenchOptions {
  parameters: number[];
  json?: true;
}

/**
 * Number of arrays that each kind of work reads and writes. An array has one float32 per parameter.
 */
const TOUCHES: Record<OptimizerRow['work'], number> = {
  sgd: 3,
  momentum: 5,
  nesterov: 5,
  adam: 7,
  adamw: 7,
  average: 2,
  hash: 1,
};
/** Number of arrays that `copy` reads and writes. */
const COPY_TOUCHES = 2;
/** Number of measured rounds, and of warm-up rounds, in which V8 compiles code. */
const ROUNDS = 15;
const WARM_UP_ROUNDS = 4;

async function benchOptimizer({ parameters, json }: OptimizerBenchOptions, io: Io): Promise<void> {
  const result: OptimizerResult = { node: process.version, rows: parameters.flatMap(measure) };
  io.out(json === undefined ? optimizerTable(result) : JSON.stringify(result));
}

function measure(parameters: number): OptimizerRow[] {
  const rng = createRng(1);
  const params = Float32Array.from({ length: parameters }, () => rng.next() - 0.5);
  const gradient = params.map(() => (rng.next() - 0.5) / 100);
  const sums = gradient.slice();
  const copied = new Float32Array(parameters);
  const tasks = {
    ...Object.fromEntries(
      OPTIMIZER_NAMES.map((name) => {
        const optimizer = createOptimizer(name, { learningRate: 1e-4 }, parameters);
        return [name, () => optimizer.apply(params, gradient)] as const;
      }),
    ),
    // The divisor is slightly more than 1, so that values keep their magnitude.
    average: () => divide(sums, 1.0000001),
    hash: () => void hashState([params]),
    copy: () => copied.set(params),
  } as Record<OptimizerRow['work'] | 'copy', () => void>;
  const names = Object.keys(tasks) as (keyof typeof tasks)[];
  const times = new Map(names.map((name) => [name, [] as number[]]));
  for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round++) {
    for (const name of names) {
      const startedAt = performance.now();
      tasks[name]();
      if (round >= WARM_UP_ROUNDS) times.get(name)!.push(performance.now() - startedAt);
    }
  }
  const copyMs = median(times.get('copy')!);
  return names.flatMap((work) => {
    if (work === 'copy') return [];
    const ms = median(times.get(work)!);
    const floorMs = (copyMs * TOUCHES[work]) / COPY_TOUCHES;
    return [{ parameters, work, ms, ns: (ms * 1e6) / parameters, ratio: ms / floorMs }];
  });
}

interface OptimizerRow {
  parameters: number;
  work: OptimizerName | 'average' | 'hash';
  ms: number;
  /** Nanoseconds per parameter. */
  ns: number;
  /** Time of the work divided by the time to copy as many bytes as the work reads and writes. */
  ratio: number;
}

export interface OptimizerResult {
  node: string;
  rows: OptimizerRow[];
}

function optimizerTable({ rows }: OptimizerResult): string {
  return table(
    ['work', 'parameters', 'ms', 'ns each', 'times a copy'],
    rows.map(({ work, parameters, ms, ns, ratio }) => [
      ...[work, String(parameters), ms.toFixed(2), ns.toFixed(2), ratio.toFixed(2)],
    ]),
  );
}

function section(result: OptimizerResult): string {
  return `## What a step does on the CPU

\`npm run -s bench -- optimizer\`, in Node ${result.node}: every kind of work is measured in turn, 15 times. Times are medians. *Times a
copy* is the time divided by the time to copy as many bytes as the work reads and writes. \`average\` divides the summed gradient by the number of
samples, which happens in each step. \`hash\` computes the digest of one array, which happens every \`hashEvery\` steps.

${optimizerTable(result)}

Division, square root and conversion between float32 and float64 limit the speed, not memory. A WebAssembly kernel would have to compute the same
bits. Such a kernel for Adam, with two float64 lanes and copies of the arrays' blocks into and out of its memory, was 1.0 to 1.4 times as fast as this
loop, which is too little gain. A kernel with four float32 lanes was 2 to 2.5 times as fast, but it rounds after every operation. Where there is no
SIMD, JavaScript would have to round in the same way, which takes 1.5 times as long as now.
`;
}

/**
 * Maximum number of parameters. Adam's state takes 2 GB then, and the arrays of the benchmark take
 * as much again.
 */
const MAX_PARAMETERS = 100_000_000;

export const optimizer = defineBenchmark({
  name: 'optimizer',
  description:
    'measure the CPU work of a step (optimizers, average and state hash), compared with copying as many bytes',
  options: [
    option(
      '--parameters <n,..>',
      'numbers of parameters to measure',
      listOf(wholeNumber(1, MAX_PARAMETERS)),
      [1_000_000, 10_000_000],
    ),
  ],
  run: benchOptimizer,
  section,
});
