/** Runs one training run of a benchmark in tabs. */
import type { BackendMode } from '../../launcher/browser/browser.ts';
import type { Io } from '../../launcher/io.ts';
import type { JobOptions } from '../../launcher/options/jobOptions.ts';
import { train } from '../../launcher/commands/run.ts';
import type { RunResult } from '../../src/protocol/runResult.ts';

/** Timeout of a run in seconds: ten times as long as the longest run on two cores without a GPU. */
const TIMEOUT_S = 30 * 60;

/**
 * Trains in `tabs` headless tabs, linked by WebRTC as tabs of different machines are. Environment
 * variables such as RANK are ignored. @throws (rejects) the errors of `train`.
 */
export function trainInTabs(
  tabs: number,
  job: JobOptions,
  io: Io,
  backend: BackendMode = 'webgpu',
): Promise<RunResult> {
  return train(
    { transport: 'webrtc', ...job, tabs, backend, gpu: 'auto', kernels: 'own', timeout: TIMEOUT_S, maxRestarts: 0 },
    io,
    {},
  );
}
