/** The program of a bundle of `bench gpu`. The built page is in a folder beside it. */
import path from 'node:path';
import { createProgram, runProgram } from '../../../launcher/options/program.ts';
import { runProcess } from '../../../launcher/process.ts';
import { GPU_OPTIONS, type GpuOptions } from '../options.ts';
import { printResult, runGpuBench } from '../run.ts';

await runProcess('bench-gpu', (argv, io) => {
  const program = createProgram('bench-gpu', 'Measures training on WebGPU on this machine.', io);
  for (const option of GPU_OPTIONS) program.addOption(option);
  program
    .option('--json', 'print the result as one JSON object on the final line of stdout')
    .action(async (options: GpuOptions) => {
      const dist = path.join(import.meta.dirname, 'page');
      printResult(await runGpuBench(dist, options, io), options, io);
    });
  return runProgram(program, argv, io);
});
