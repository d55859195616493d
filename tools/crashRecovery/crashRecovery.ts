/**
 * `peergrad kills`: a run whose tabs are all killed at once, again and again, each time to go on
 * from the checkpoint that was written by then; and whether it comes to the same state as a run
 * that nobody disturbs.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { readCheckpointMeta } from '../../src/protocol/checkpoint.ts';
import type { EngineEvent } from '../../src/protocol/events.ts';
import type { RunResult } from '../../src/protocol/runResult.ts';
import { isElastic, type JobSpec } from '../../src/spec/job.ts';
import { systemClock } from '../../src/util/clock.ts';
import { deferred } from '../../src/util/deferred.ts';
import { PeergradError, TimeoutError, UsageError } from '../../src/util/errors.ts';
import { createRng } from '../../src/util/rng.ts';
import { startSignaling, type SignalingServer } from '../../signaling/index.ts';
import { ensureBuilt, DIST } from '../../launcher/build.ts';
import { killBrowser, launchBrowser, type BackendMode, type GpuMode } from '../../launcher/browser/browser.ts';
import { ensureBrowser } from '../../launcher/browser/findBrowser.ts';
import type { Io } from '../../launcher/io.ts';
import { type JobOptions, resolveTraining } from '../../launcher/options/jobOptions.ts';
import { Keeper } from '../../launcher/keeper.ts';
import { openTabs, type Tabs } from '../../launcher/browser/tabs.ts';

export interface CrashRecoveryOptions extends JobOptions {
  tabs: number;
  kills: number;
  json?: true;
  browser?: string;
  backend: BackendMode;
  gpu: GpuMode;
  /** Seconds, for one life of the run. */
  timeout: number;
}

/** What the command tells. */
export interface CrashRecoveryReport {
  kills: number;
  /**
   * Steps that were taken when all were killed, and steps of the checkpoint that was gone on from.
   */
  lives: { killedAt: number; wentOnFrom: number }[];
  /**
   * Steps that had to be taken again, at most, and steps between two comparisons of ranks, when
   * checkpoints are written.
   */
  mostLost: number;
  interval: number;
  stateHash: string;
  undisturbedHash: string;
}

/** Steps between two checkpoints. */
const HASH_EVERY = 10;
/** Steps are what ends it: the most passes that a job may have. */
const ENDLESS_EPOCHS = 1000;

interface Life {
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
 * @throws (rejects) UsageError; PeergradError where more is lost than may be, or the state differs,
 *   after the report is out.
 */
export async function crashRecovery(options: CrashRecoveryOptions, io: Io): Promise<void> {
  const { hashEvery = HASH_EVERY } = options;
  const length = { epochs: ENDLESS_EPOCHS, hashEvery, steps: Math.max(2, options.kills) * hashEvery };
  const { job, served } = await resolveTraining({ ...length, ...options });
  if (!isElastic(job)) throw new UsageError(`A run by the strategy ${job.strategy} has no checkpoints: choose ddp.`);
  if (job.maxSteps! < 2 * hashEvery) {
    throw new UsageError('The run is too short to be killed: let --steps be twice --hash-every at least.');
  }
  const executable = await ensureBrowser(options.browser, io.err);
  await ensureBuilt(io);
  const server = await startSignaling({ dist: DIST, data: served });
  const scratch = await mkdtemp(path.join(tmpdir(), 'peergrad-kills-'));
  const world: World = {
    ...{ server, job, executable, tabs: options.tabs, backend: options.backend, gpu: options.gpu },
    timeoutMs: options.timeout * 1000,
    checkpoint: path.join(scratch, 'run.peergrad'),
  };
  try {
    const undisturbed = await live({ ...world, checkpoint: path.join(scratch, 'undisturbed.peergrad') }, null, io);
    io.err(`Undisturbed, ${undisturbed.steps} steps come to ${undisturbed.result!.stateHash[0]}.`);
    const report = await killAgainAndAgain(world, options.kills, io);
    const told = { ...report, undisturbedHash: undisturbed.result!.stateHash[0]! };
    io.out(options.json === undefined ? summarize(told) : JSON.stringify(told));
    if (told.mostLost > told.interval) {
      throw new PeergradError(`${told.mostLost} steps were lost, where ${told.interval} may be.`);
    }
    if (told.stateHash !== told.undisturbedHash) {
      throw new PeergradError('The run that was killed came to another state than the one that was not.');
    }
  } finally {
    await server.close();
    await rm(scratch, { recursive: true });
  }
}

async function killAgainAndAgain(
  world: World,
  count: number,
  io: Io,
): Promise<Omit<CrashRecoveryReport, 'undisturbedHash'>> {
  const { job, checkpoint } = world;
  const rng = createRng(job.seed);
  const lives: CrashRecoveryReport['lives'] = [];
  const interval = job.hashEvery;
  let from = 0;
  for (let i = 0; i < count; i++) {
    // Within two intervals of where it goes on; not at the end, where there is nothing to go on
    // with.
    const killAt = Math.min(from + 1 + rng.below(2 * interval), job.maxSteps! - 1);
    const life = await live(world, killAt, io);
    from = (await stepsIn(checkpoint)) ?? 0;
    lives.push({ killedAt: life.steps, wentOnFrom: from });
    io.err(`Kill ${i + 1} of ${count} after step ${life.steps}: ${life.steps - from} steps are to be taken again.`);
  }
  const last = await live(world, null, io);
  const mostLost = Math.max(0, ...lives.map(({ killedAt, wentOnFrom }) => killedAt - wentOnFrom));
  return { kills: count, lives, mostLost, interval, stateHash: last.result!.stateHash[0]! };
}

/**
 * One life of the run, from its checkpoint, if there is one, until all is killed after step
 * `killAt`, or to its end.
 */
async function live(world: World, killAt: number | null, io: Io): Promise<Life> {
  const { server, job, tabs: n, executable, backend, gpu, timeoutMs, checkpoint } = world;
  const room = server.createRoom({ job, startAt: n, nodes: null });
  const probeUrl = `${server.urls.at(-1)}/healthz`;
  const browser = await launchBrowser({ executable, backend, gpu, probeUrl });
  const names = Array.from({ length: n }, (_, i) => `tab-${i + 1}`);
  const over = deferred<RunResult | null>();
  // A tab may fail before anybody waits.
  over.promise.catch(() => {});
  const results = new Map<string, RunResult>();
  const life: Life = { result: null, steps: 0 };
  let tabs: Tabs | null = null;
  const keeper = new Keeper({
    ...{ checkpoint, out: null, clock: systemClock },
    // That a tab was killed while it was asked.
    note: () => {},
    release: async (step) => tabs?.release(step),
    ask: async (tab, format) => tabs?.askForModel(tab, format),
    onwritten: () => {},
  });
  const onevent = (tab: string, event: EngineEvent): void => {
    keeper.on(tab, event);
    if (event.type === 'step') life.steps = Math.max(life.steps, event.step + 1);
    if (event.type === 'failed') over.reject(new PeergradError(`${tab}: ${event.message}`));
    if (event.type === 'finished') results.set(tab, event.result);
    if (results.size === n) over.resolve(event.type === 'finished' ? event.result : null);
    if (killAt !== null && life.steps >= killAt) over.resolve(null);
  };
  const ondeath = (tab: string, message: string): void => {
    keeper.lose(tab);
    over.reject(new PeergradError(`${tab}: ${message}.`));
  };
  const cancel = systemClock.after(timeoutMs, () =>
    over.reject(new TimeoutError('The run took too long: see --timeout.')),
  );
  const interrupt = (): void => over.reject(io.signal.reason);
  io.signal.addEventListener('abort', interrupt);
  // The browser took its time to start.
  if (io.signal.aborted) interrupt();
  try {
    const bytes = (await stepsIn(checkpoint)) === null ? null : new Uint8Array(await readFile(checkpoint));
    const origin = bytes && { name: path.basename(checkpoint), bytes };
    const pages = names.map((name) => ({ name, url: `${server.urls.at(-1)}/#${room}?name=${name}&auto` }));
    // A tab may fail while others still load.
    openTabs<EngineEvent>([browser], { tabs: pages, onevent, ondeath, onerror: () => {}, origin, holds: true }).then(
      (opened) => (tabs = opened),
      (error: unknown) => over.reject(error),
    );
    life.result = await over.promise;
    return life;
  } finally {
    cancel();
    io.signal.removeEventListener('abort', interrupt);
    await killBrowser(browser);
    // What was about to be written is written or not, and nothing else.
    await keeper.idle;
  }
}

/**
 * @returns `null` where there is no checkpoint. @throws (rejects) DataError where it is not whole.
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
    `${count} kills of all tabs; at most ${mostLost} steps were taken again, with a checkpoint every ${interval}.`,
    stateHash === undisturbedHash
      ? `It came to the state of an undisturbed run: ${stateHash}.`
      : `It came to ${stateHash}, and an undisturbed run to ${undisturbedHash}.`,
  ].join('\n');
}
