/**
 * `peergrad run`: headless tabs on this machine, as a world or as this machine's share of one, from
 * nothing to the result.
 */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { decodeCheckpoint } from '../../src/protocol/checkpoint.ts';
import type { RunResult } from '../../src/protocol/runResult.ts';
import { isElastic, keepsModel, nameOfJob, type JobSpec } from '../../src/spec/job.ts';
import { FILE_ENDINGS, WEIGHTS_FORMATS, weightsFormatOf } from '../../src/spec/modelFile.ts';
import { roomCodeOf } from '../../src/protocol/roomCode.ts';
import { systemClock } from '../../src/util/clock.ts';
import { messageOf, UsageError } from '../../src/util/errors.ts';
import { isLoopback, selfSignedCertificate, startSignaling, type IceOptions } from '../../signaling/index.ts';
import { awaitServer } from '../awaitServer.ts';
import { ensureBrowser } from '../browser/findBrowser.ts';
import { DIST, ensureBuilt } from '../build.ts';
import { iceOf, saidOfIce, type IceFlags } from '../options/iceOptions.ts';
import type { Io } from '../io.ts';
import {
  checkData,
  type JobOptions,
  type LengthOptions,
  resolveTraining,
  saidOfJob,
  saysJob,
} from '../options/jobOptions.ts';
import type { Kept } from '../keeper.ts';
import type { BackendMode, GpuMode } from '../browser/browser.ts';
import { type Environment, type Placement, placementOf, type PlacementOptions } from '../options/placement.ts';
import { summarize } from '../output/report.ts';
import { trainInTabs } from '../trainInTabs.ts';
import type { Origin } from '../browser/tabs.ts';

interface TrainOptions extends JobOptions, LengthOptions, PlacementOptions, IceFlags {
  /** The run's name, by which its processes find the same room. */
  rdzvId?: string;
  maxRestarts: number;
  headed?: true;
  browser?: string;
  backend: BackendMode;
  gpu: GpuMode;
  /** Seconds, beside the minutes of training. */
  timeout: number;
  screenshot?: string;
  /**
   * Files: the model in the end; checkpoints as it goes; a checkpoint to go on from; weights to
   * begin with.
   */
  out?: string;
  checkpoint?: string;
  resume?: string;
  from?: string;
}

export interface RunOptions extends TrainOptions {
  json?: true;
}

/** torchrun's: processes that were given no name meet all the same. */
const DEFAULT_RDZV_ID = 'none';

/** Where all tabs of the world meet. */
interface Meeting {
  /** Of the page, without a slash at its end. */
  url: string;
  room: string;
  /** Resolves once tabs can be let in. */
  open: (timeoutMs: number) => Promise<void>;
  close: () => Promise<void>;
}

export async function run(options: RunOptions, io: Io, env: Environment): Promise<void> {
  const result = await train(options, io, env);
  if (options.json === undefined) return io.out(summarize(result));
  io.err(summarize(result));
  io.out(JSON.stringify(result));
}

/**
 * Trains in tabs of this machine; says on `io.err` how far it is. @throws (rejects) UsageError,
 * PeergradError.
 */
export async function train(options: TrainOptions, io: Io, env: Environment): Promise<RunResult> {
  const placement = placementOf(options, env);
  const { firstRank, worldSize, elastic } = placement;
  const begun = await readOrigin(options, firstRank);
  const resolved = firstRank === 0 ? (begun?.resolved ?? (await resolveTraining(options, options))) : null;
  if (resolved) checkKeeps(options, resolved.job);
  const ice = iceOf(options);
  const unheard = firstRank === 0 ? [] : [...saidOfJob(options), ...saidOfIce(options)];
  if (unheard.length > 0) io.err(`The process of rank 0 says this, and here it is passed over: ${unheard.join(', ')}.`);
  const screenshot = options.screenshot ?? null;
  for (const name of ['screenshot', 'out', 'checkpoint'] as const) checkFolder(name, options[name]);
  const out = outOf(options);
  let origin = begun?.origin ?? null;
  const executable = await ensureBrowser(options.browser, io.err);
  const meeting =
    resolved === null
      ? meetThere(placement, options, io)
      : await meetHere(placement, options, { ...resolved, ice }, io);
  const tabs = Array.from({ length: placement.tabs }, (_, i) => {
    const name = `tab-${firstRank + i + 1}`;
    // Where ranks come and go nobody keeps one.
    const rank = elastic === null ? `&rank=${firstRank + i}` : '';
    return { name, url: `${meeting.url}/#${meeting.room}?name=${name}&auto${rank}` };
  });
  try {
    return await withRestarts(options, io, async (timeoutMs, restarts) => {
      await meeting.open(timeoutMs);
      let hasCheckpoint = false;
      const kept: Kept = { checkpoint: options.checkpoint ?? null, out, onwritten: () => (hasCheckpoint = true) };
      io.err(`${tabs.length === 1 ? '1 tab' : `${tabs.length} tabs`} of ${executable} ...`);
      const trained = await trainInTabs(
        {
          executable,
          backend: options.backend,
          gpu: options.gpu,
          headed: options.headed ?? false,
          probeUrl: `${meeting.url}/healthz`,
          anyCertificate: meeting.url.startsWith('https:'),
          tabs,
          timeoutMs,
          waitsForOthers: tabs.length < worldSize,
          mayLoseTabs: elastic !== null,
          screenshot,
          kept,
          origin,
        },
        io,
      ).catch(async (error: unknown) => {
        // Whoever starts again need not begin again.
        if (hasCheckpoint) origin = await readFileOf(kept.checkpoint!);
        throw error;
      });
      return { ...trained, restarts: trained.restarts + restarts };
    });
  } finally {
    await meeting.close();
  }
}

/**
 * What the run goes on from or begins with, and for a checkpoint its job. @throws (rejects)
 * UsageError, DataError.
 */
async function readOrigin(
  options: TrainOptions,
  firstRank: number,
): Promise<{ origin: Origin; resolved: Awaited<ReturnType<typeof resolveTraining>> | null } | null> {
  const { resume, from, data } = options;
  if (resume === undefined && from === undefined) return null;
  if (resume !== undefined && from !== undefined) {
    throw new UsageError('--resume goes on with a run, and --from begins one with weights: choose one of the two.');
  }
  if (firstRank !== 0) {
    throw new UsageError('The process of rank 0 has the file that a run begins with: give --resume or --from there.');
  }
  const origin = await readFileOf(resume ?? from!);
  if (resume === undefined) return { origin, resolved: null };
  if (saysJob(options)) {
    throw new UsageError(
      'The checkpoint says what is trained: leave the job file and options of the job out, or begin anew by --from.',
    );
  }
  const { meta } = await decodeCheckpoint(resume, new Blob([origin.bytes]));
  const served = data === undefined ? null : await checkData(data, meta.job.job);
  return { origin, resolved: { job: meta.job, served } };
}

/** @throws (rejects) UsageError where it cannot be read. */
async function readFileOf(file: string): Promise<Origin> {
  try {
    return { name: path.basename(file), bytes: new Uint8Array(await readFile(file)) };
  } catch (error) {
    throw new UsageError(`${file} cannot be read: check its path. (${messageOf(error)})`);
  }
}

/** @throws UsageError where there is no folder for a file that an option names. */
function checkFolder(option: string, file: string | undefined): void {
  if (file === undefined || existsSync(path.dirname(path.resolve(file)))) return;
  throw new UsageError(`There is no folder for ${file}: make it, or choose another path for --${option}.`);
}

/**
 * @throws UsageError where the run cannot be gone on with, or begun with a file, or leaves nothing
 *   to keep.
 */
function checkKeeps({ checkpoint, from, out }: TrainOptions, job: JobSpec): void {
  if (!keepsModel(job) && (out !== undefined || checkpoint !== undefined)) {
    throw new UsageError(
      'A range test looks for a learning rate and leaves the model as it was: leave --out and --checkpoint out, or choose another --schedule.',
    );
  }
  if (isElastic(job) || (checkpoint === undefined && from === undefined)) return;
  throw new UsageError(
    `By the strategy ${job.strategy} ranks have state of their own, which no file holds: choose ddp for --checkpoint and --from.`,
  );
}

/** @throws UsageError where the file's name says no format. */
function outOf({ out }: TrainOptions): Kept['out'] {
  if (out === undefined) return null;
  const format = weightsFormatOf(out);
  if (format !== null) return { path: out, format };
  const endings = WEIGHTS_FORMATS.map((one) => FILE_ENDINGS[one]).join(', ');
  throw new UsageError(`The format of ${out} is not known by its name: choose one that ends in ${endings}.`);
}

/**
 * The process with rank 0 serves: to other machines over https, for their pages must be secure to
 * have WebGPU.
 */
async function meetHere(
  { worldSize, elastic, tabs, master }: Placement,
  { rdzvId }: TrainOptions,
  { job, served, ice }: { job: JobSpec; served: string | null; ice: IceOptions },
  io: Io,
): Promise<Meeting> {
  await ensureBuilt(io);
  const { host, port } = master;
  const others = Math.max(0, worldSize - tabs);
  const tls = isLoopback(host) ? null : await selfSignedCertificate();
  // The others' address for this machine need not be one that it knows itself by.
  const anyAddress = host.includes(':') ? '::' : '0.0.0.0';
  const server = await startSignaling({
    ...{ host: tls === null ? host : anyAddress, port, tls, dist: DIST, data: served, ice },
  });
  const isNamed = rdzvId !== undefined || (elastic?.max ?? worldSize) > tabs;
  const code = isNamed ? { code: roomCodeOf(rdzvId ?? DEFAULT_RDZV_ID) } : {};
  const room = server.createRoom({ job, startAt: worldSize, nodes: elastic, ...code });
  io.err(`${nameOfJob(job)} in a world of ${worldSize === 1 ? '1 rank' : `${worldSize} ranks`}.`);
  if (others > 0) io.err(`Waiting for ${others} of them at ${urlOf(host, server.port)}.`);
  return {
    // The last is the one that this machine reaches itself by.
    url: server.urls.at(-1)!,
    room,
    open: () => Promise.resolve(),
    close: () => server.close(),
  };
}

function meetThere({ master }: Placement, { rdzvId = DEFAULT_RDZV_ID }: TrainOptions, io: Io): Meeting {
  const url = urlOf(master.host, master.port);
  return {
    url,
    room: roomCodeOf(rdzvId),
    open: async (timeoutMs) => {
      io.err(`Waiting for the server of rank 0 at ${url} ...`);
      await awaitServer(url, timeoutMs, io.signal);
    },
    close: () => Promise.resolve(),
  };
}

function urlOf(host: string, port: number): string {
  return `${isLoopback(host) ? 'http' : 'https'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/**
 * Makes `attempt` until it succeeds, has failed `maxRestarts` times more than once, or time is up.
 * A wrong call and Ctrl-C are no failures. It gets the milliseconds that are left, and how often it
 * was made before.
 */
async function withRestarts<Result>(
  { maxRestarts, timeout, minutes = 0 }: TrainOptions,
  io: Io,
  attempt: (timeoutMs: number, restarts: number) => Promise<Result>,
): Promise<Result> {
  const endsAt = systemClock.now() + (timeout + minutes * 60) * 1000;
  for (let restarts = 0; ; restarts++) {
    try {
      // Whole seconds: people read them.
      return await attempt(Math.ceil((endsAt - systemClock.now()) / 1000) * 1000, restarts);
    } catch (error) {
      const isFinal = error instanceof UsageError || io.signal.aborted || systemClock.now() >= endsAt;
      if (isFinal || restarts === maxRestarts) throw error;
      io.err(`${messageOf(error)} Starting all of it again, restart ${restarts + 1} of ${maxRestarts}.`);
    }
  }
}
