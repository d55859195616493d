/** Serves the built page of `bench gpu`, measures, and writes the result. */
import { rename, writeFile } from 'node:fs/promises';
import type { Io } from '../../launcher/io.ts';
import { startSignaling } from '../../signaling/index.ts';
import { systemClock } from '../../src/util/clock.ts';
import { PeergradError } from '../../src/util/errors.ts';
import { openGpuPage } from './browsers.ts';
import { measure } from './measure.ts';
import type { GpuOptions } from './options.ts';
import { tables } from './report.ts';
import type { GpuBenchResult } from './result.ts';

/** Path of the page in the project, and in the folder of the built page. */
export const PAGE = 'bench/gpu/page.html';

const MINUTE_MS = 60_000;

/**
 * @param dist folder of the built page.
 * @throws (rejects) the errors of {@link measure}.
 */
export async function runGpuBench(dist: string, options: GpuOptions, io: Io): Promise<GpuBenchResult> {
  const { minutes, out, ...choice } = options;
  const server = await startSignaling({ dist });
  try {
    return await measure(
      { gpu: choice.gpu, limitMs: minutes * MINUTE_MS },
      {
        open: () => openGpuPage(`${server.url}/${PAGE}`, choice),
        clock: systemClock,
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

/**
 * Prints the tables, or the result as JSON.
 *
 * @throws PeergradError if a measurement failed.
 */
export function printResult(result: GpuBenchResult, { json }: GpuOptions, io: Io): void {
  io.out(json === undefined ? tables(result) : JSON.stringify(result));
  const failed = result.leftOut.filter(({ reason }) => reason === 'failed').map(({ name }) => name);
  if (failed.length > 0) throw new PeergradError(`These measurements failed: ${failed.join(', ')}. See above.`);
}

/** Replaces a file in one step, so that an interrupt never leaves a part of it. */
async function writeWhole(file: string, text: string): Promise<void> {
  await writeFile(`${file}.part`, `${text}\n`);
  await rename(`${file}.part`, file);
}
