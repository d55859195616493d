/**
 * `bench gpu`: measures training on WebGPU in one tab: a plain TensorFlow.js loop, and peergrad
 * with TensorFlow.js's kernels and with its own. Also measures matrix products with both.
 */
import { Option } from 'commander';
import type { Io } from '../../launcher/io.ts';
import { buildPage } from '../../tools/buildPage.ts';
import { defineBenchmark } from '../command/defineBenchmark.ts';
import type { GpuBenchResult } from './args.ts';
import { GPU, PAGE, runGpuBench, type GpuOptions } from './run.ts';

interface GpuBenchOptions extends GpuOptions {
  /** Folder for a bundle of this benchmark, which is written instead of measuring. */
  bundle?: string;
}

async function measure({ bundle, ...options }: GpuBenchOptions, io: Io): Promise<GpuBenchResult | null> {
  const { dist, remove } = await buildPage(PAGE);
  try {
    if (bundle === undefined) return await runGpuBench(dist, options, io);
    // Loaded only here, because a bundler is needed only here.
    const { writeBundle } = await import('./bundle/write.ts');
    io.out(await writeBundle(bundle, dist));
    return null;
  } finally {
    await remove();
  }
}

const BUNDLE = new Option(
  '--bundle <folder>',
  'write this benchmark to a folder that needs only Node and a browser to run',
);

export const gpu = defineBenchmark({ ...GPU, options: [...GPU.options, BUNDLE], measure });
