/** The program of a bundle of `bench gpu`. The built page is in a folder beside it. */
import path from 'node:path';
import type { Io } from '../../../launcher/io.ts';
import { createProgram, runProgram } from '../../../launcher/options/program.ts';
import { runProcess } from '../../../launcher/process.ts';
import { defineBenchmark } from '../../command/defineBenchmark.ts';
import { GPU, runGpuBench, type GpuOptions } from '../run.ts';

const gpu = defineBenchmark({
  ...GPU,
  measure: (options: GpuOptions, io: Io) => runGpuBench(path.join(import.meta.dirname, 'page'), options, io),
});

await runProcess('bench-gpu', (argv, io) => {
  const program = createProgram('bench-gpu', GPU.description, io);
  gpu.describe(program, io);
  return runProgram(program, argv, io);
});
