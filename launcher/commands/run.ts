/**
 * `peergrad run`: trains in headless tabs on this machine. The tabs are all ranks of the world, or
 * the ranks of this machine if there are several machines.
 */
import { existsSync, openAsBlob } from 'node:fs';
import path from 'node:path';
import { decodeCheckpoint } from '../../src/formats/checkpoint.ts';
import {
  DEFAULT_JOB,
  canJobSaveCheckpoints,
  isElasticJob,
  endsWithModel,
  jobDisplayName,
  parseJob,
  type JobSpec,
} from '../../src/spec/job.ts';
import { isPipelineJob } from '../../src/spec/pipeline.ts';
import {
  MODEL_FILE_ENDINGS,
  WEIGHTS_FORMATS,
  weightsFormatOfPath,
  weightsFormatsOfJob,
} from '../../src/spec/modelFile.ts';
import { noRoomMessage, roomCodeFromText } from '../../src/protocol/roomCode.ts';
import { systemClock } from '../../src/util/clock.ts';
import { whyPlanCannotRun } from '../../src/spec/plan.ts';
import { errorMessageOf, PeergradError, TimeoutError, UsageError } from '../../src/util/errors.ts';
import type { GpuKernelChoice } from '../../src/spec/names.ts';
import { isLoopback } from '../../signaling/http/address.ts';
import { selfSignedCertificate } from '../../signaling/http/tls.ts';
import { awaitServer } from '../awaitServer.ts';
import { ensureBrowser } from '../browser/findBrowser.ts';
import { DIST, ensureBuilt } from '../build.ts';
import { connectionFlags, connectionsOf, type ConnectionFlags } from '../options/connectionOptions.ts';
import type { Io } from '../io.ts';
import {
  checkData,
  type JobOptions,
  type LengthOptions,
  resolveTraining,
  jobFlags,
  describesJob,
} from '../options/jobOptions.ts';
import type { ModelOutputs } from '../modelWriter.ts';
import type { BackendMode, GpuMode } from '../browser/browser.ts';
import { type Environment, type Placement, placementOf, type PlacementOptions } from '../options/placement.ts';
import { discardsModel, keptOf } from '../output/kept.ts';
import { callOthers, MissingNodes } from '../output/missingNodes.ts';
import { summarize } from '../output/report.ts';
import { trainInTabs, type TrainingResult } from '../trainInTabs.ts';
import type { Origin } from '../browser/tabs.ts';

interface TrainOptions extends JobOptions, LengthOptions, PlacementOptions, ConnectionFlags {
  /** Name of the run, by which all its processes find the same room. */
  rdzvId?: string;
  maxRestarts: number;
  headed?: true;
  browser?: string;
  backend: BackendMode;
  gpu: GpuMode;
  kernels: GpuKernelChoice;
  /** Timeout in seconds, in addition to the minutes of training. */
  timeout: number;
  screenshot?: string;
  /**
   * Paths of files: the final model (`out`), checkpoints during the run (`checkpoint`), a
   * checkpoint to continue from (`resume`), and initial weights (`from`).
   */
  out?: string;
  checkpoint?: string;
  resume?: string;
  from?: string;
}

export interface RunOptions extends TrainOptions {
  json?: true;
}

/** torchrun's default id. Processes without `--rdzv-id` all use it, so they find the same room. */
const DEFAULT_RDZV_ID = 'none';

/** The room in which all tabs of the world meet. */
interface Rendezvous {
  /** URL of the page, without a trailing slash. */
  url: string;
  room: string;
  /** Resolves when tabs can join. */
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
 * Trains in tabs of this machine and writes progress to `io.err`.
 *
 * @throws (rejects) UsageError, PeergradError.
 */
export async function train(options: TrainOptions, io: Io, env: Environment): Promise<TrainingResult> {
  const placement = placementOf(options, env);
  const { firstRank, worldSize, elastic } = placement;
  const given = await readOrigin(options, firstRank);
  const resolved = firstRank === 0 ? (given?.resolved ?? (await resolveTraining(options, options))) : null;
  if (resolved) {
    checkOutputs(options, resolved.job);
    const why = whyPlanCannotRun(resolved.job, worldSize);
    if (why !== null) throw new UsageError(`The run cannot start: ${why}. Pass --algorithm ring or auto.`);
  }
  const connections = connectionsOf(options);
  const ignored = firstRank === 0 ? [] : [...jobFlags(options), ...connectionFlags(options)];
  if (ignored.length > 0)
    io.err(`Only the process that has rank 0 uses these options, so they are ignored here: ${ignored.join(', ')}.`);
  const screenshot = options.screenshot ?? null;
  for (const name of ['screenshot', 'out', 'checkpoint'] as const) checkFolder(name, options[name]);
  const out = modelFileOf(options);
  let origin = given?.origin ?? null;
  const executable = await ensureBrowser(options.browser, io.err);
  const discarded = resolved === null ? null : discardsModel(resolved.job, options.out);
  if (discarded !== null) io.err(discarded);
  const rendezvous =
    resolved === null
      ? findRoom(placement, options, io)
      : await serveRoom(placement, options, { ...resolved, connections }, io);
  const tabs = Array.from({ length: placement.tabs }, (_, i) => {
    const name = `tab-${firstRank + i + 1}`;
    // In an elastic run, no tab requests a rank, because ranks change.
    const rank = elastic === null ? `&rank=${firstRank + i}` : '';
    return { name, url: `${rendezvous.url}/#${rendezvous.room}?name=${name}&auto${rank}&kernels=${options.kernels}` };
  });
  let written: string | null = null;
  try {
    return await withRestarts(options, io, async (timeoutMs, restarts) => {
      await rendezvous.open(timeoutMs);
      const missing = new MissingNodes(placement, options);
      const outputs: ModelOutputs = {
        checkpoint: options.checkpoint ?? null,
        out,
        onwritten: () => (written = options.checkpoint ?? null),
      };
      io.err(`${tabs.length === 1 ? '1 tab' : `${tabs.length} tabs`} of ${executable} ...`);
      const trained = await trainInTabs(
        {
          executable,
          backend: options.backend,
          gpu: options.gpu,
          headed: options.headed ?? false,
          probeUrl: `${rendezvous.url}/healthz`,
          anyCertificate: rendezvous.url.startsWith('https:'),
          tabs,
          timeoutMs,
          waitsForOthers: tabs.length < worldSize,
          mayLoseTabs: elastic !== null,
          screenshot,
          remark: (event) => (firstRank === 0 ? missing.on(event) : null),
          outputs,
          origin,
        },
        io,
      ).catch(async (error: unknown) => {
        // A restart continues from the checkpoint.
        if (written !== null) origin = await readFileOf(written);
        if (error instanceof TimeoutError && missing.line !== null)
          throw new TimeoutError(`${error.message} ${missing.line}`);
        if (resolved === null && errorMessageOf(error).includes(noRoomMessage(rendezvous.room)))
          throw new PeergradError(noRun(rendezvous.url, options.rdzvId));
        throw error;
      });
      return { ...trained, restarts: trained.restarts + restarts };
    });
  } finally {
    const kept = io.signal.aborted && resolved !== null ? keptOf(resolved.job, options.checkpoint, written) : null;
    if (kept !== null) io.err(kept);
    await rendezvous.close();
  }
}

/** Returns the error message of a node whose `--rdzv-id` differs from that of node 0. */
function noRun(url: string, rdzvId: string | undefined): string {
  const name = rdzvId === undefined ? 'without --rdzv-id' : `with --rdzv-id ${rdzvId}`;
  return `The server at ${url} has no run ${name}. It has a run with another id, or no run. Pass the same --rdzv-id on every machine.`;
}

/**
 * Reads the checkpoint to continue from or the initial weights. Also returns the job of a
 * checkpoint.
 *
 * @throws (rejects) UsageError, DataError.
 */
async function readOrigin(
  options: TrainOptions,
  firstRank: number,
): Promise<{ origin: Origin; resolved: Awaited<ReturnType<typeof resolveTraining>> | null } | null> {
  const { resume, from, data, shardOptimizer, ...others } = options;
  if (resume === undefined && from === undefined) return null;
  if (resume !== undefined && from !== undefined) {
    throw new UsageError('--resume continues a run, but --from starts a new run with weights. Pass only one of them.');
  }
  if (firstRank !== 0) {
    throw new UsageError(
      'Only the process that has rank 0 reads the file with which a run starts. Pass --resume or --from there.',
    );
  }
  const origin = await readFileOf(resume ?? from!);
  if (resume === undefined) return { origin, resolved: null };
  if (describesJob(others)) {
    throw new UsageError(
      'The checkpoint defines the job, except for --shard-optimizer. Remove the job file and the other job options, or start a new ' +
        'run with --from.',
    );
  }
  const { meta } = await decodeCheckpoint(resume, origin.content);
  const served = data === undefined ? null : await checkData(data, meta.job.job);
  const isSharded = shardOptimizer === undefined ? meta.job.shardOptimizer : shardOptimizer === 'on';
  return { origin, resolved: { job: parseJob({ ...meta.job, shardOptimizer: isSharded }), served } };
}

/** @throws (rejects) UsageError if it cannot be read. */
async function readFileOf(file: string): Promise<Origin> {
  try {
    // The file is read later, when its bytes are needed.
    return { name: path.basename(file), content: await openAsBlob(file) };
  } catch (error) {
    throw new UsageError(`${file} cannot be read. Check its path. (${errorMessageOf(error)})`);
  }
}

/** @throws UsageError if the folder of an option's file does not exist. */
function checkFolder(option: string, file: string | undefined): void {
  if (file === undefined || existsSync(path.dirname(path.resolve(file)))) return;
  throw new UsageError(`The folder of ${file} does not exist. Create it, or pass another path with --${option}.`);
}

/**
 * @throws UsageError if an option needs something that this job does not have: checkpoints, initial
 *   weights, a trained model or a format.
 */
function checkOutputs({ checkpoint, from, out }: TrainOptions, job: JobSpec): void {
  if (!endsWithModel(job) && (out !== undefined || checkpoint !== undefined)) {
    throw new UsageError(
      'This run only measures and does not train the model. Remove --out and --checkpoint, or remove --measure.',
    );
  }
  const format = out === undefined ? null : weightsFormatOfPath(out);
  const formats = weightsFormatsOfJob(job);
  if (format !== null && !formats.includes(format)) {
    const why = isPipelineJob(job)
      ? 'no tab of a pipeline has all layers'
      : 'this model is not made of TensorFlow.js layers';
    throw new UsageError(
      `The model cannot be saved as ${out}, because ${why}. Choose a file name that ends in ${formats.map((one) => MODEL_FILE_ENDINGS[one]).join(', ')}.`,
    );
  }
  const reason = `not every rank has the whole state. Choose --strategy ${DEFAULT_JOB.strategy}, or remove`;
  if (checkpoint !== undefined && !canJobSaveCheckpoints(job)) {
    throw new UsageError(
      `A run with the strategy ${job.strategy} has no checkpoints, because ${reason} --checkpoint. --out saves the final model.`,
    );
  }
  if (from !== undefined && !isElasticJob(job)) {
    throw new UsageError(
      `A run with the strategy ${job.strategy} cannot start with weights, because ${reason} --from.`,
    );
  }
}

/** @throws UsageError if the file's extension is not a known format. */
function modelFileOf({ out }: TrainOptions): ModelOutputs['out'] {
  if (out === undefined) return null;
  const format = weightsFormatOfPath(out);
  if (format !== null) return { path: out, format };
  const endings = WEIGHTS_FORMATS.map((one) => MODEL_FILE_ENDINGS[one]).join(', ');
  throw new UsageError(`The format of ${out} is not known. Choose a file name that ends in one of these: ${endings}.`);
}

/**
 * Starts the server. Only the process with rank 0 does this. If other machines can connect, the
 * server uses https, because WebGPU needs a secure context.
 */
async function serveRoom(
  placement: Placement,
  options: TrainOptions,
  { job, served, connections }: { job: JobSpec; served: string | null; connections: ReturnType<typeof connectionsOf> },
  io: Io,
): Promise<Rendezvous> {
  const { worldSize, elastic, tabs, master } = placement;
  const { rdzvId } = options;
  await ensureBuilt(io);
  // The server's packages load slowly, so they are imported after the arguments are checked.
  const { startSignaling } = await import('../../signaling/index.ts');
  const { host, port } = master;
  const others = Math.max(0, worldSize - tabs);
  const tls = isLoopback(host) ? null : await selfSignedCertificate();
  // The server listens on all addresses of this machine. It cannot listen on `host` only: behind
  // NAT, `host` may be an address that this machine does not have.
  const anyAddress = host.includes(':') ? '::' : '0.0.0.0';
  const server = await startSignaling({
    host: tls === null ? host : anyAddress,
    port,
    tls,
    dist: DIST,
    data: served,
    ...connections,
    // Other processes use this address, which may be a name that this machine does not know.
    origins: [new URL(urlOf(host, port)).origin],
  });
  const isNamed = rdzvId !== undefined || (elastic?.max ?? worldSize) > tabs;
  const code = isNamed ? { code: roomCodeFromText(rdzvId ?? DEFAULT_RDZV_ID) } : {};
  const room = server.createRoom({ job, startAt: worldSize, nodes: elastic, ...code });
  io.err(`Training ${jobDisplayName(job)} in a world of ${worldSize === 1 ? '1 rank' : `${worldSize} ranks`}.`);
  if (others > 0) {
    io.err(`Waiting for ${others} ranks of other processes at ${urlOf(host, server.port)}.`);
    for (const line of callOthers(placement, options)) io.err(line);
  }
  return {
    // The last one of the server's URLs always works on this machine.
    url: server.urls.at(-1)!,
    room,
    open: () => Promise.resolve(),
    close: () => server.close(),
  };
}

function findRoom({ master }: Placement, { rdzvId = DEFAULT_RDZV_ID }: TrainOptions, io: Io): Rendezvous {
  const url = urlOf(master.host, master.port);
  return {
    url,
    room: roomCodeFromText(rdzvId),
    open: async (timeoutMs) => {
      io.err(`Waiting for the server of rank 0 at ${url} ...`);
      await awaitServer(url, timeoutMs, { clock: systemClock, signal: io.signal, note: io.err });
    },
    close: () => Promise.resolve(),
  };
}

function urlOf(host: string, port: number): string {
  return `${isLoopback(host) ? 'http' : 'https'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/**
 * Repeats `attempt` until it succeeds, has failed more than `maxRestarts` times, or the time is up.
 * After usage errors and Ctrl-C it does not repeat. `attempt` receives the remaining milliseconds
 * and the number of previous attempts.
 */
async function withRestarts<Result>(
  { maxRestarts, timeout, minutes = 0 }: TrainOptions,
  io: Io,
  attempt: (timeoutMs: number, restarts: number) => Promise<Result>,
): Promise<Result> {
  const endsAt = systemClock.now() + (timeout + minutes * 60) * 1000;
  for (let restarts = 0; ; restarts++) {
    try {
      // The remaining time is rounded up to whole seconds, because messages show it in seconds.
      return await attempt(Math.ceil((endsAt - systemClock.now()) / 1000) * 1000, restarts);
    } catch (error) {
      const isFinal = error instanceof UsageError || io.signal.aborted || systemClock.now() >= endsAt;
      if (isFinal || restarts === maxRestarts) throw error;
      io.err(`${errorMessageOf(error)} Restarting the run, restart ${restarts + 1} of ${maxRestarts}.`);
    }
  }
}
