/**
 * `tools crash-recovery`: kills all tabs of a run at the same time, several times. Each time the
 * run continues from the latest checkpoint. In the end, the tool compares the final state with that
 * of an undisturbed run.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { readCheckpointMeta } from '../../src/formats/checkpoint.ts';
import type { EngineEvent } from '../../src/protocol/events.ts';
import type { RunResult } from '../../src/protocol/runResult.ts';
import { canJobSaveCheckpoints, type JobSpec } from '../../src/spec/job.ts';
import { systemClock } from '../../src/util/clock.ts';
import { createDeferred } from '../../src/util/deferred.ts';
import { PeergradError, TimeoutError, UsageError } from '../../src/util/errors.ts';
import { createRng } from '../../src/util/rng.ts';
import { startSignaling, type SignalingServer } from '../../signaling/index.ts';
import { ensureBuilt, DIST } from '../../launcher/build.ts';
import { killBrowser, launchBrowser, type BackendMode, type GpuMode } from '../../launcher/browser/browser.ts';
import { ensureBrowser } from '../../launcher/browser/findBrowser.ts';
import type { Io } from '../../launcher/io.ts';
import { type JobOptions, resolveTraining } from '../../launcher/options/jobOptions.ts';
import { ModelWriter } from '../../launcher/modelWriter.ts';
import { openTabs, type Tabs } from '../../launcher/browser/tabs.ts';

export interface CrashRecoveryOptions extends JobOptions {
  tabs: number;
  kills: number;
  json?: true;
  browser?: string;
  backend: BackendMode;
  gpu: GpuMode;
  /** Timeout of one attempt of the run, in seconds. */
  timeout: number;
}

/** The report of the command. */
export interface CrashRecoveryReport {
  kills: number;
  /**
   * For each attempt: the number of steps when all tabs were killed, and the number of steps in the
   * checkpoint from which the next attempt continued.
   */
  attempts: { killedAt: number; resumedFrom: number }[];
  /**
   * The largest number of steps that had to be repeated (`mostLost`), and the number of steps
   * between two checkpoints (`interval`).
   */
  mostLost: number;
  interval: number;
  stateHash: string;
  undisturbedHash: string;
}

/** Steps between two checkpoints. */
const HASH_EVERY = 10;
/** The largest number of epochs of a job, so that only the number of steps limits the run. */
const ENDLESS_EPOCHS = 1000;

interface Attempt {
  result: RunResult | null;
  steps: number;
}

interface World {
  server: SignalingServer;
  job: JobSpec;
  tabs: number;
  executable: string;
  backend: BackendMode;
  gpu: GpuMode;
  timeoutMs: number;
  checkpoint: string;
}

/**
 * @throws (rejects) UsageError for invalid options. PeergradError if too much is lost or the state
 * differs; the report is printed before this error is thrown.
 */
export async function crashRecovery(options: CrashRecoveryOptions, io: Io): Promise<void> {
  const { hashEvery = HASH_EVERY } = options;
  const length = { epochs: ENDLESS_EPOCHS, hashEvery, steps: Math.max(2, options.kills) * hashEvery };
  const { job, served } = await resolveTraining({ ...length, ...options });
  if (!canJobSaveCheckpoints(job)) throw new UsageError('This job has no checkpoints. Choose --strategy ddp.');
  if (job.maxSteps! < 2 * hashEvery) {
    throw new UsageError('The run is too short to be killed. Set --steps to at least twice --hash-every.');
  }
  const executable = await ensureBrowser(options.browser, io.err);
  await ensureBuilt(io);
  const server = await startSignaling({ dist: DIST, data: served });
  const scratch = await mkdtemp(path.join(tmpdir(), 'peergrad-crash-recovery-'));
  const world: World = {
    server,
    job,
    executable,
    tabs: options.tabs,
    backend: options.backend,
    gpu: options.gpu,
    timeoutMs: options.timeout * 1000,
    checkpoint: path.join(scratch, 'run.peergrad'),
  };
  try {
    const undisturbed = await runAttempt(
      { ...world, checkpoint: path.join(scratch, 'undisturbed.peergrad') },
      null,
      io,
    );
    io.err(`The undisturbed run of ${undisturbed.steps} steps ends with state ${undisturbed.result!.stateHash[0]}.`);
    const report = await killRepeatedly(world, options.kills, io);
    const full = { ...report, undisturbedHash: undisturbed.result!.stateHash[0]! };
    io.out(options.json === undefined ? summarize(full) : JSON.stringify(full));
    if (full.mostLost > full.interval) {
      throw new PeergradError(`${full.mostLost} steps were lost; at most ${full.interval} are allowed.`);
    }
    if (full.stateHash !== full.undisturbedHash) {
      throw new PeergradError('The final state of the killed run differs from that of the undisturbed run.');
    }
  } finally {
    await server.close();
    await rm(scratch, { recursive: true });
  }
}

async function killRepeatedly(
  world: World,
  count: number,
  io: Io,
): Promise<Omit<CrashRecoveryReport, 'undisturbedHash'>> {
  const { job, checkpoint } = world;
  const rng = createRng(job.seed);
  const attempts: CrashRecoveryReport['attempts'] = [];
  const interval = job.hashEvery;
  let from = 0;
  for (let i = 0; i < count; i++) {
    // All tabs are killed at most two intervals after the latest checkpoint, and before the end of
    // the run.
    const killAt = Math.min(from + 1 + rng.below(2 * interval), job.maxSteps! - 1);
    const attempt = await runAttempt(world, killAt, io);
    from = (await stepsIn(checkpoint)) ?? 0;
    attempts.push({ killedAt: attempt.steps, resumedFrom: from });
    io.err(`Kill ${i + 1} of ${count} after step ${attempt.steps}: ${attempt.steps - from} steps must be repeated.`);
  }
  const last = await runAttempt(world, null, io);
  const mostLost = Math.max(0, ...attempts.map(({ killedAt, resumedFrom }) => killedAt - resumedFrom));
  return { kills: count, attempts, mostLost, interval, stateHash: last.result!.stateHash[0]! };
}

/**
 * Runs from the checkpoint, if there is one. All tabs are killed after step `killAt`; if it is
 * `null`, the run continues to its end.
 */
async function runAttempt(world: World, killAt: number | null, io: Io): Promise<Attempt> {
  const { server, job, tabs: n, executable, backend, gpu, timeoutMs, checkpoint } = world;
  const room = server.createRoom({ job, startAt: n, nodes: null });
  const probeUrl = `${server.urls.at(-1)}/healthz`;
  const browser = await launchBrowser({ executable, backend, gpu, probeUrl });
  const names = Array.from({ length: n }, (_, i) => `tab-${i + 1}`);
  const over = createDeferred<RunResult | null>();
  // A tab may fail before anyone awaits this promise.
  over.promise.catch(() => {});
  const results = new Map<string, RunResult>();
  const attempt: Attempt = { result: null, steps: 0 };
  let tabs: Tabs | null = null;
  const writer = new ModelWriter({
    checkpoint,
    out: null,
    clock: systemClock,
    // Notes are ignored: they say that a tab was killed during an export.
    note: () => {},
    release: async (step) => tabs?.release(step),
    ask: async (tab, format) => tabs?.askForModel(tab, format),
    read: (tab, from, to) => tabs!.readModel(tab, from, to),
    onwritten: () => {},
  });
  const onevent = (tab: string, event: EngineEvent): void => {
    writer.on(tab, event);
    if (event.type === 'step') attempt.steps = Math.max(attempt.steps, event.step + 1);
    if (event.type === 'failed') over.reject(new PeergradError(`${tab}: ${event.message}`));
    if (event.type === 'finished') results.set(tab, event.result);
    if (results.size === n) over.resolve(event.type === 'finished' ? event.result : null);
    if (killAt !== null && attempt.steps >= killAt) over.resolve(null);
  };
  const ondeath = (tab: string, message: string): void => {
    writer.tabLost(tab);
    over.reject(new PeergradError(`${tab}: ${message}.`));
  };
  const cancel = systemClock.after(timeoutMs, () =>
    over.reject(new TimeoutError('The run took too long. Allow more time with --timeout.')),
  );
  const interrupt = (): void => over.reject(io.signal.reason);
  io.signal.addEventListener('abort', interrupt);
  // The signal may have aborted while the browser started.
  if (io.signal.aborted) interrupt();
  try {
    const isThere = (await stepsIn(checkpoint)) !== null;
    const origin = isThere
      ? { name: path.basename(checkpoint), content: new Blob([await readFile(checkpoint)]) }
      : null;
    const pages = names.map((name) => ({ name, url: `${server.urls.at(-1)}/#${room}?name=${name}&auto` }));
    // A tab may fail while others still load.
    openTabs([browser], {
      tabs: pages,
      onevent,
      ondeath,
      onerror: () => {},
      origin,
      waitsForCheckpoints: true,
    }).then(
      (opened) => (tabs = opened),
      (error: unknown) => over.reject(error),
    );
    attempt.result = await over.promise;
    return attempt;
  } finally {
    cancel();
    io.signal.removeEventListener('abort', interrupt);
    await killBrowser(browser);
    // Wait for a pending checkpoint, which is written completely or not at all.
    await writer.idle;
  }
}

/**
 * Reads the number of steps in a checkpoint.
 *
 * @returns `null` if there is no checkpoint.
 * @throws (rejects) DataError if it is incomplete.
 */
async function stepsIn(checkpoint: string): Promise<number | null> {
  let bytes: Uint8Array<ArrayBuffer>;
  try {
    bytes = new Uint8Array(await readFile(checkpoint));
  } catch {
    return null;
  }
  return (await readCheckpointMeta(checkpoint, new Blob([bytes]))).step;
}

function summarize({ kills: count, mostLost, interval, stateHash, undisturbedHash }: CrashRecoveryReport): string {
  return [
    `All tabs were killed ${count} times. At most ${mostLost} steps were repeated, with a checkpoint every ${interval} steps.`,
    stateHash === undisturbedHash
      ? `The final state is equal to that of an undisturbed run: ${stateHash}.`
      : `The final state is ${stateHash}, but that of an undisturbed run is ${undisturbedHash}.`,
  ].join('\n');
}
