/**
 * `bench optimizer`: what a step does on the CPU beside the network. In Node, whose V8 is a
 * browser's: all kinds in turn, again and again, beside a copy of the same arrays, which is as fast
 * as memory lets anything be.
 */
import type { Io } from '../../launcher/io.ts';
import { createOptimizer } from '../../src/optim/index.ts';
import { OPTIMIZER_NAMES } from '../../src/spec/names.ts';
import { median } from '../../src/util/statistics.ts';
import { divide } from '../../src/util/divide.ts';
import { hashState } from '../../src/util/hash.ts';
import { createRng } from '../../src/util/rng.ts';
import { optimizerTable, type OptimizerResult, type OptimizerRow } from './table.ts';

export interface OptimizerBenchOptions {
  parameters: number[];
  json?: true;
}

/** Float32 arrays of the parameters' length that are read and written. */
const TOUCHES: Record<OptimizerRow['work'], number> = {
  ...{ sgd: 3, momentum: 5, nesterov: 5, adam: 7, adamw: 7 },
  ...{ average: 2, hash: 1 },
};
/** Of `copy`. */
const COPY_TOUCHES = 2;
/** Rounds that are measured, after those in which V8 compiles. */
const ROUNDS = 15;
const WARM_UP_ROUNDS = 4;

export async function benchOptimizer({ parameters, json }: OptimizerBenchOptions, io: Io): Promise<void> {
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
    // By little more than 1: the values are to stay numbers of the usual size.
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
