/**
 * One tab's engine: does what the page commands, joins a room, trains each epoch, and tells all of it in events. Knows no
 * thread: it runs in a worker, or on the page itself.
 */
import { DEFAULT_OP_TIMEOUT_MS, ProcessGroup } from '../collectives/processGroup.ts';
import { loadData } from '../jobs/index.ts';
import { PROTOCOL_VERSION, type ClientMessage } from '../protocol/control.ts';
import type { EngineCommand, EngineEvent, RunResult } from '../protocol/events.ts';
import type { JobSpec } from '../protocol/job.ts';
import { systemClock } from '../util/clock.ts';
import { asError, messageOf, PeergradError, UsageError } from '../util/errors.ts';
import { openDevice, type OpenedDevice } from './device.ts';
import type { PeerConnector } from './linking.ts';
import { startReplicas } from './replicas.ts';
import { Rendezvous, type Epoch } from './rendezvous.ts';
import { createJobTask } from './jobTask.ts';
import type { Task } from './task.ts';
import { TrainingRun } from './trainingRun.ts';

/** Loading data and compiling shaders take as long as the slowest rank; the server ends SYNCING after the same time. */
export const SYNCING_TIMEOUT_MS = 120_000;

export interface SessionOptions {
  connectPeer: PeerConnector;
  emit: (event: EngineEvent) => void;
  /** What relative data URLs are relative to. */
  baseUrl: string;
}

export class Session {
  readonly #options: SessionOptions;
  readonly #clock = systemClock;
  #rendezvous: Rendezvous | null = null;
  #device: Promise<OpenedDevice> | null = null;
  #files: File[] = [];
  /** The room's job, once admitted. */
  #job: JobSpec | null = null;
  /** The kind of data this rank has said it is ready for: another kind may need files first. */
  #readyFor: JobSpec['data']['kind'] | null = null;
  /** Of the latest run. */
  #group: ProcessGroup | null = null;

  constructor(options: SessionOptions) {
    this.#options = options;
  }

  command(command: EngineCommand): void {
    switch (command.type) {
      case 'create': {
        const { name, rank, job, startAt } = command;
        return this.#enter(command.server, { type: 'create', version: PROTOCOL_VERSION, name, rank, job, startAt });
      }
      case 'join': {
        const { name, rank, room } = command;
        return this.#enter(command.server, { type: 'join', version: PROTOCOL_VERSION, name, rank, room });
      }
      case 'configure':
      case 'start':
        return this.#rendezvous?.send(command);
      case 'files':
        this.#files = command.files;
        void this.#announce();
        return;
      case 'recording':
        return this.#tellRecording();
      case 'leave':
        this.#rendezvous?.leave();
        this.#rendezvous = null;
        return;
      default:
        command satisfies never;
    }
  }

  #enter(server: string, hello: Extract<ClientMessage, { type: 'create' | 'join' }>): void {
    const { connectPeer, emit } = this.#options;
    this.#rendezvous?.leave();
    this.#job = null;
    this.#readyFor = null;
    const rendezvous = new Rendezvous({
      ...{ server, hello, connectPeer, clock: this.#clock },
      onadmitted: ({ member, room }) => emit({ type: 'admitted', member, room }),
      onroom: ({ phase, host, members, job, startAt }) => {
        emit({ type: 'room', phase, host, members, job, startAt });
        this.#job = job;
        void this.#announce();
      },
      onstate: (state, epoch, detail) => emit({ type: 'state', state, epoch, detail }),
      onepoch: (epoch) => this.#train(epoch),
      onfailed: (error) => this.#fail(error, false),
      onfatal: (error) => this.#fail(error, true),
    });
    this.#rendezvous = rendezvous;
    void rendezvous.start();
  }

  /** Says that this rank can be counted on, once its device is open and it has what the job needs. */
  async #announce(): Promise<void> {
    const rendezvous = this.#rendezvous;
    if (!rendezvous || !this.#job) return;
    const { kind } = this.#job.data;
    if (this.#readyFor === kind) return;
    this.#readyFor = null;
    if (kind === 'files' && this.#files.length === 0) return;
    this.#readyFor = kind;
    try {
      const { device } = await this.#openDevice();
      rendezvous.send({ type: 'ready', device });
    } catch (error) {
      this.#fail(error, true);
      rendezvous.leave();
    }
  }

  #openDevice(): Promise<OpenedDevice> {
    this.#device ??= openDevice(this.#clock).then((opened) => {
      this.#options.emit({ type: 'device', device: opened.device, note: opened.note });
      return opened;
    });
    return this.#device;
  }

  async #train(epoch: Epoch): Promise<void> {
    const { job, members, worldSize, signal } = epoch;
    if (job.strategy !== 'data-parallel') return this.#run(epoch, epoch);
    if (worldSize > 1) {
      throw new UsageError(
        `The strategy data-parallel runs in one tab, and this room has ${worldSize}: choose ring for several tabs.`,
      );
    }
    const { files, baseUrl } = { files: this.#files, baseUrl: this.#options.baseUrl };
    const lost = new AbortController();
    const replicas = startReplicas({ worldSize: job.replicas, epoch: epoch.epoch, job, files, baseUrl }, (error) =>
      lost.abort(error),
    );
    const [self] = members;
    const workers = Array.from({ length: job.replicas }, (_, i) => ({ ...self!, name: `replica ${i}` }));
    try {
      await this.#run(epoch, {
        ...{ rank: 0, worldSize: job.replicas, localRank: 0, localWorldSize: job.replicas },
        ...{ members: workers, mesh: replicas.mesh, links: replicas.links },
        signal: AbortSignal.any([signal, lost.signal]),
      });
    } finally {
      replicas.stop();
    }
  }

  /** Trains as a rank of `world`: the room's, or this tab's own. */
  async #run(epoch: Epoch, world: Omit<Epoch, 'epoch' | 'job' | 'synced' | 'finished'>): Promise<void> {
    const { emit, baseUrl } = this.#options;
    const { job } = epoch;
    const { rank, worldSize, localRank, localWorldSize, members, mesh, links, signal } = world;
    emit({ type: 'epoch', epoch: epoch.epoch, rank, worldSize, localRank, localWorldSize, members, job });
    const group = new ProcessGroup(mesh, {
      ...{ localRank, localWorldSize, clock: this.#clock },
      timeoutMs: SYNCING_TIMEOUT_MS,
    });
    this.#group = group;
    signal.addEventListener('abort', () => group.abort(asError(signal.reason)), { once: true });
    let task: Task | null = null;
    let run: TrainingRun | null = null;
    try {
      const transport = await this.#describeLinks(links);
      const opened = await this.#openDevice();
      emit({ type: 'warmup', message: job.data.kind === 'drawn' ? 'Drawing digits' : 'Loading the data' });
      const data = await loadData(job, { files: this.#files, baseUrl, signal });
      task = createJobTask(job, data, worldSize);
      run = await TrainingRun.prepare({
        ...{ plan: job, task, group, transport, signal, emit, clock: this.#clock },
        device: opened.device,
        checkDevice: () => opened.check(),
      });
      await epoch.synced(0, run.stateHash());
      group.timeoutMs = DEFAULT_OP_TIMEOUT_MS;
      const result = await run.run();
      await epoch.finished(result.steps, result.stateHash[rank]!);
      emit({ type: 'finished', result });
    } catch (error) {
      // The others need not find out by their deadlines.
      if (!signal.aborted) group.abort(asError(error));
      throw error;
    } finally {
      run?.dispose();
      task?.dispose();
      group.destroy();
    }
  }

  async #describeLinks(links: Epoch['links']): Promise<RunResult['transport']> {
    let transport: RunResult['transport'] = 'none';
    for (const [peerRank, link] of links) {
      const { route, roundTripMs } = await link.describe();
      transport = route === 'memory' ? 'memory' : 'webrtc';
      this.#options.emit({ type: 'link', peerRank, up: link.state === 'open', route, roundTripMs });
    }
    return transport;
  }

  #tellRecording(): void {
    this.#options.emit({ type: 'recording', recording: this.#group?.flightRecording ?? null });
  }

  #fail(error: unknown, fatal: boolean): void {
    if (fatal) this.#tellRecording();
    const name = error instanceof PeergradError ? error.name : 'Error';
    this.#options.emit({ type: 'failed', name, message: messageOf(error), fatal });
  }
}
