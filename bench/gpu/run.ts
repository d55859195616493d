/** The command `bench gpu` without the build of its page, which a bundle has already. */
import { rename, writeFile } from 'node:fs/promises';
import { Option } from 'commander';
import { GPU_MODES } from '../../launcher/browser/browser.ts';
import type { Io } from '../../launcher/io.ts';
import { wholeNumber } from '../../launcher/options/jobOptions.ts';
import { startSignaling } from '../../signaling/index.ts';
import { systemClock } from '../../src/util/clock.ts';
import type { Definition } from '../command/defineBenchmark.ts';
import { option } from '../command/options.ts';
import type { GpuBenchResult } from './args.ts';
import { openGpuPage, type BrowserChoice } from './browsers.ts';
import { measure } from './measure.ts';
import { section, tables } from './report.ts';

export interface GpuOptions extends BrowserChoice {
  minutes: number;
  /** File for the result, which is written again after each model. */
  out?: string;
}

/** Path of the page in the project, and in the folder of the built page. */
export const PAGE = 'bench/gpu/page.html';

const MINUTE_MS = 60_000;
const MAX_MINUTES = 24 * 60;

export const GPU: Omit<Definition<GpuOptions, GpuBenchResult>, 'measure'> = {
  name: 'gpu',
  description:
    "measure a training step on WebGPU: plain TensorFlow.js, and one rank with TensorFlow.js's kernels and with its own",
  options: [
    new Option('--browser <path>', 'path of Chrome, Chromium or Edge, or firefox (default: as of the launcher)'),
    new Option('--gpu <mode>', 'device that WebGPU runs on; hardware fails if the adapter computes in software')
      .choices(GPU_MODES)
      .default('auto'),
    option('--minutes <n>', 'time limit; what it leaves out is reported', wholeNumber(1, MAX_MINUTES), 10),
    new Option('--out <file>', 'JSON file for the result, which is written again after each model'),
  ],
  section,
  text: tables,
  problemsOf: ({ leftOut }) =>
    leftOut.filter(({ reason }) => reason === 'failed').map(({ name }) => `${name} was not measured, see above`),
};

/**
 * Serves the built page and measures.
 *
 * @param dist folder of the built page.
 * @throws (rejects) the errors of {@link measure}.
 */
export async function runGpuBench(dist: string, options: GpuOptions, io: Io): Promise<GpuBenchResult> {
  const { gpu, minutes, out } = options;
  const server = await startSignaling({ dist });
  try {
    return await measure(
      { gpu, limitMs: minutes * MINUTE_MS },
      {
        open: () => openGpuPage(`${server.url}/${PAGE}`, options),
        clock: systemClock,
        signal: io.signal,
        log: io.err,
        save: async (result) => {
          if (out !== undefined) await writeWhole(out, JSON.stringify(result));
        },
      },
    );
  } finally {
    await server.close();
  }
}

/** Replaces a file in one step, so that an interrupt never leaves a part of it. */
async function writeWhole(file: string, text: string): Promise<void> {
  await writeFile(`${file}.part`, `${text}\n`);
  await rename(`${file}.part`, file);
}
