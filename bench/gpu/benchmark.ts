/**
 * `bench gpu`: measures training on WebGPU in one tab: a plain TensorFlow.js loop, and peergrad
 * with TensorFlow.js's kernels and with its own. Also measures matrix products with both.
 */
import { Option } from 'commander';
import type { Io } from '../../launcher/io.ts';
import { buildPage } from '../../tools/buildPage.ts';
import { defineBenchmark } from '../command/defineBenchmark.ts';
import { GPU_OPTIONS, type GpuOptions } from './options.ts';
import { drawResult, section } from './report.ts';
import { PAGE, printResult, runGpuBench } from './run.ts';

interface GpuBenchOptions extends GpuOptions {
  picture?: string;
  /** Folder for a bundle of this benchmark, which is written instead of measuring. */
  bundle?: string;
}

async function benchGpu({ picture, bundle, ...options }: GpuBenchOptions, io: Io): Promise<void> {
  const { dist, remove } = await buildPage(PAGE);
  try {
    if (bundle !== undefined) {
      // Loaded only here, because a bundler is needed only here.
      const { writeBundle } = await import('./bundle/write.ts');
      io.out(await writeBundle(bundle, dist));
      return;
    }
    const result = await runGpuBench(dist, options, io);
    if (picture !== undefined) await drawResult(result, picture);
    printResult(result, options, io);
  } finally {
    await remove();
  }
}

export const gpu = defineBenchmark({
  name: 'gpu',
  description:
    "measure a training step on WebGPU: plain TensorFlow.js, and one rank with TensorFlow.js's kernels and with its own",
  options: [
    ...GPU_OPTIONS,
    new Option('--picture <file>', 'PNG file for charts of step times and matrix products'),
    new Option('--bundle <folder>', 'write this benchmark to a folder that needs only Node and a browser to run'),
  ],
  run: benchGpu,
  section,
});
