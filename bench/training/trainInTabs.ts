/** One training run of a benchmark. */
import type { Io } from '../../launcher/io.ts';
import type { JobOptions } from '../../launcher/options/jobOptions.ts';
import { train } from '../../launcher/commands/run.ts';
import type { RunResult } from '../../src/protocol/runResult.ts';

/** Seconds for one run: ten times the longest one on two cores without a GPU. */
const TIMEOUT_S = 30 * 60;

/**
 * Trains in `tabs` headless tabs and ignores environment variables with ranks. @throws (rejects) as
 * `train`.
 */
export function trainInTabs(tabs: number, job: JobOptions, io: Io): Promise<RunResult> {
  return train({ ...job, tabs, backend: 'webgpu', gpu: 'auto', timeout: TIMEOUT_S, maxRestarts: 0 }, io, {});
}
