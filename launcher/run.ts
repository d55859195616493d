/** `peergrad run`: a server, a room and N headless tabs on this machine, from nothing to the result. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { UsageError } from '../src/util/errors.ts';
import { startSignaling } from '../signaling/index.ts';
import { ensureBrowser } from './findBrowser.ts';
import { DIST, ensureBuilt } from './build.ts';
import type { Io } from './io.ts';
import { type JobOptions, resolveJob } from './jobOptions.ts';
import type { GpuMode } from './browser.ts';
import { summarize } from './report.ts';
import { trainInTabs } from './session.ts';

export interface RunOptions extends JobOptions {
  tabs: number;
  json?: true;
  headed?: true;
  browser?: string;
  gpu: GpuMode;
  /** Seconds. */
  timeout: number;
  screenshot?: string;
}

export async function run(options: RunOptions, io: Io): Promise<void> {
  const { job, folder } = await resolveJob(options);
  const screenshot = options.screenshot ?? null;
  if (screenshot !== null && !existsSync(path.dirname(path.resolve(screenshot)))) {
    throw new UsageError(`There is no folder for ${screenshot}: make it, or choose another path for --screenshot.`);
  }
  const executable = await ensureBrowser(options.browser, io.err);
  await ensureBuilt(io);
  const server = await startSignaling({ dist: DIST, data: folder });
  try {
    const room = server.createRoom({ job, startAt: options.tabs });
    const tabs = Array.from({ length: options.tabs }, (_, i) => {
      const name = `tab-${i + 1}`;
      return { name, url: `${server.url}/#${room}?name=${name}&auto` };
    });
    io.err(
      `${job.job}/${job.model} with ${options.tabs === 1 ? '1 tab' : `${options.tabs} tabs`} of ${executable} ...`,
    );
    const result = await trainInTabs(
      {
        executable,
        gpu: options.gpu,
        headed: options.headed ?? false,
        probeUrl: `${server.url}/healthz`,
        tabs,
        timeoutMs: options.timeout * 1000,
        waitsForHost: false,
        screenshot,
      },
      io,
    );
    if (options.json === undefined) return io.out(summarize(result));
    io.err(summarize(result));
    io.out(JSON.stringify(result));
  } finally {
    await server.close();
  }
}
