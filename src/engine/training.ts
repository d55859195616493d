/** One tab's part in one run, over all of its epochs: its data, its model, and the group it trains with at present. */
import { DEFAULT_OP_TIMEOUT_MS, ProcessGroup } from '../collectives/processGroup.ts';
import type { EngineEvent, RunResult } from '../protocol/events.ts';
import type { FlightRecording } from '../protocol/flightRecording.ts';
import type { JobSpec } from '../protocol/job.ts';
import type { Clock } from '../util/clock.ts';
import { asError, UsageError } from '../util/errors.ts';
import type { OpenedDevice } from './device.ts';
import { Author } from './author.ts';
import type { JobTask } from './jobTask.ts';
import { loadJobTask } from './loadJobTask.ts';
import type { Answerer } from './learned.ts';
import type { StateReport } from './membership.ts';
import type { Epoch } from './rendezvous.ts';
import { startReplicas, type Replicas } from './replicas.ts';
import { Samples } from './samples.ts';
import { TrainingRun, type RunState } from './trainingRun.ts';
import { transportOf } from './transport.ts';

/** Loading data and compiling shaders take as long as the slowest rank; the server ends SYNCING after the same time. */
export const SYNCING_TIMEOUT_MS = 120_000;

export interface TrainingOptions {
  job: JobSpec;
  /** The room's number for the run. */
  run: number;
  /** Ranks that are expected: held-out samples are tested in batches that they share evenly. */
  worldSize: number;
  files: File[];
  /** What relative data URLs are relative to. */
  baseUrl: string;
  opened: OpenedDevice;
  clock: Clock;
  emit: (event: EngineEvent) => void;
  /** A saved state to go on from. */
  from: RunState | null;
  isHidden: () => boolean;
}

export class Training {
  readonly run: number;
  readonly #options: TrainingOptions;
  readonly #task: JobTask;
  readonly #trainingRun: TrainingRun;
  /** Of a language model. */
  readonly #samples: Samples | null;
  #group: ProcessGroup | null = null;
  #replicas: Replicas | null = null;
  #hasState: boolean;
  #result: RunResult | null = null;

  private constructor(
    options: TrainingOptions,
    { task, samples, trainingRun }: { task: JobTask; samples: Samples | null; trainingRun: TrainingRun },
  ) {
    this.run = options.run;
    this.#options = options;
    this.#task = task;
    this.#samples = samples;
    this.#trainingRun = trainingRun;
    this.#hasState = options.from !== null;
  }

  /**
   * Loads the data, builds the model and compiles its shaders. Nothing is sent to other ranks.
   *
   * @throws (rejects) DataError, DeviceError.
   */
  static async prepare(options: TrainingOptions): Promise<Training> {
    const { job, worldSize, files, baseUrl, opened, clock, emit, from, isHidden } = options;
    emit(
      job.data.kind === 'drawn'
        ? { type: 'warmup', stage: 'drawing', message: 'Drawing digits' }
        : { type: 'warmup', stage: 'data', message: 'Loading the data' },
    );
    const ranks = job.strategy === 'data-parallel' ? job.replicas : worldSize;
    const task = await loadJobTask(job, { files, baseUrl }, ranks);
    const samples = task.learned instanceof Author ? new Samples(task.learned, emit) : null;
    const tell = (event: EngineEvent): Promise<void> | void => {
      emit(event);
      return samples?.observe(event);
    };
    try {
      const trainingRun = await TrainingRun.prepare({
        ...{ plan: job, task, clock, emit: tell, from, isHidden },
        device: opened.device,
        checkDevice: () => opened.check(),
      });
      return new Training(options, { task, samples, trainingRun });
    } catch (error) {
      task.dispose();
      throw error;
    }
  }

  /** Whether there is a state that a newcomer could be given. */
  get hasState(): boolean {
    return this.#hasState;
  }

  /** Of the run's end. */
  get result(): RunResult | null {
    return this.#result;
  }

  get recording(): FlightRecording | null {
    return this.#group && { ...this.#group.flightRecording, ...structuredClone(this.#trainingRun.recorded) };
  }

  /** Of the latest epoch. */
  get worldSize(): number {
    return this.#group?.worldSize ?? this.#options.worldSize;
  }

  /** To be asked what the model has learned by now. */
  get answerer(): Answerer {
    const run = this.#trainingRun;
    return { model: this.#task.learned, standing: () => ({ steps: run.steps, stateHash: run.stateHash() }) };
  }

  /** A copy of the state after the last step that was applied. */
  snapshot(): Promise<RunState> {
    return this.#trainingRun.snapshot();
  }

  /** SYNCING: makes the epoch's group, and this rank's state that of the others. */
  async enter(epoch: Epoch): Promise<StateReport> {
    const { job, emit, clock } = this.#options;
    this.#leaveGroup();
    const world = this.#worldOf(epoch);
    const { rank, worldSize, localRank, localWorldSize, members, parted, mesh, links, signal } = world;
    emit({
      type: 'epoch',
      epoch: epoch.epoch,
      run: this.run,
      rank,
      worldSize,
      localRank,
      localWorldSize,
      members,
      ...(parted.length > 0 && { parted }),
      job,
    });
    const group = new ProcessGroup(mesh, { localRank, localWorldSize, clock, timeoutMs: SYNCING_TIMEOUT_MS });
    this.#group = group;
    signal.addEventListener('abort', () => group.abort(asError(signal.reason)), { once: true });
    await this.#tellLinks(links);
    return this.#checked(async () => {
      const transport = await transportOf(group);
      const state = await this.#trainingRun.enter({ group, transport, signal });
      this.#hasState = true;
      group.timeoutMs = DEFAULT_OP_TIMEOUT_MS;
      return state;
    });
  }

  /** RUNNING: trains to the end of the run, or of the epoch. */
  async train(): Promise<StateReport> {
    return this.#checked(async () => {
      const trained = await this.#trainingRun.run();
      const result = { ...trained, ...(await this.#written(trained.steps)) };
      this.#result = result;
      return { step: result.steps, stateHash: result.stateHash[this.#group!.rank]! };
    });
  }

  dispose(): void {
    this.#leaveGroup();
    this.#trainingRun.dispose();
    this.#task.dispose();
  }

  /** Frees all but the model, which is the caller's to ask and to dispose of. */
  retire(): Answerer {
    const { model, standing } = this.answerer;
    const last = standing();
    this.#leaveGroup();
    this.#trainingRun.dispose();
    return { model, standing: () => last };
  }

  /** What a language model's result has beside the others'. */
  async #written(steps: number): Promise<Pick<RunResult, 'bigramLoss' | 'samples'>> {
    const { learned } = this.#task;
    if (!(learned instanceof Author) || this.#samples === null) return {};
    return { bigramLoss: learned.bigramLoss, samples: await this.#samples.finish(steps) };
  }

  /** What a lost GPU breaks says something else first. */
  async #checked<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      this.#options.opened.check();
      throw error;
    }
  }

  #leaveGroup(): void {
    this.#group?.destroy();
    this.#group = null;
    this.#replicas?.stop();
    this.#replicas = null;
  }

  /** The room's ranks; by `data-parallel` this tab's own replicas. */
  #worldOf(epoch: Epoch): Omit<Epoch, 'epoch' | 'run' | 'job'> {
    const { job, files, baseUrl } = this.#options;
    if (job.strategy !== 'data-parallel') return epoch;
    if (epoch.worldSize > 1) {
      throw new UsageError(
        `The strategy data-parallel runs in one tab, and this room has ${epoch.worldSize}: choose ring for several tabs.`,
      );
    }
    const lost = new AbortController();
    this.#replicas = startReplicas({ worldSize: job.replicas, epoch: epoch.epoch, job, files, baseUrl }, (error) =>
      lost.abort(error),
    );
    const [self] = epoch.members;
    return {
      ...{ rank: 0, worldSize: job.replicas, localRank: 0, localWorldSize: job.replicas },
      members: Array.from({ length: job.replicas }, (_, i) => ({ ...self!, name: `replica ${i}` })),
      parted: [],
      ...{ mesh: this.#replicas.mesh, links: this.#replicas.links },
      signal: AbortSignal.any([epoch.signal, lost.signal]),
    };
  }

  async #tellLinks(links: Epoch['links']): Promise<void> {
    for (const [peerRank, link] of links) {
      const { route, roundTripMs } = await link.describe();
      this.#options.emit({ type: 'link', peerRank, up: link.state === 'open', route, roundTripMs });
    }
  }
}
