/** The command `bench gpu` without the build of its page, which a bundle has already. */
import { rename, writeFile } from 'node:fs/promises';
import { Option } from 'commander';
import type { Io } from '../../launcher/io.ts';
import { wholeNumber } from '../../launcher/options/jobOptions.ts';
import { startSignaling } from '../../signaling/index.ts';
import { systemClock } from '../../src/util/clock.ts';
import type { Definition } from '../command/defineBenchmark.ts';
import { option } from '../command/options.ts';
import type { GpuBenchResult } from './args.ts';
import { BROWSER_OPTIONS, openBenchPage, type BrowserChoice } from '../world/browsers.ts';
import { measure, type GpuPage } from './measure.ts';
import { section, tables } from './report.ts';
import type { ArgsOf, MeasurementName, ResultOf } from './worker.ts';

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
    ...BROWSER_OPTIONS,
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

async function openGpuPage(url: string, choice: BrowserChoice): Promise<GpuPage> {
  const page = await openBenchPage(url, choice);
  return {
    ...page,
    measure: async <Name extends MeasurementName>(name: Name, args: ArgsOf<Name>) =>
      (await page.evaluate(`measureGpu(${JSON.stringify(name)}, ${JSON.stringify(args)})`)) as ResultOf<Name>,
  };
}

/** Replaces a file in one step, so that an interrupt never leaves a part of it. */
async function writeWhole(file: string, text: string): Promise<void> {
  await writeFile(`${file}.part`, `${text}\n`);
  await rename(`${file}.part`, file);
}
