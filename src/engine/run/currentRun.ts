/**
 * The run in which this tab takes part. It is prepared once, saved during training, and replaced by
 * the next run. After a run has ended, its model still answers queries until the next run replaces
 * it.
 */
import type { ClientMessage, RoomMessage, RunOutcome } from '../../protocol/control.ts';
import type { ReportedDevice } from '../../protocol/room.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { FlightRecording } from '../../protocol/flightRecording.ts';
import { canJobSaveCheckpoints, endsWithModel, type JobSpec } from '../../spec/job.ts';
import type { ThreadActivity } from '../../util/activity.ts';
import type { Clock } from '../../util/clock.ts';
import { unlessAborted } from '../../util/deadline.ts';
import { RunOverError } from '../../util/errors.ts';
import type { GpuKernelChoice } from '../../spec/names.ts';
import type { OpenedDevice } from '../device/device.ts';
import type { ChosenFiles } from '../files/chosenFiles.ts';
import type { ResumableRun, TrainedModel } from '../model/modelFiles.ts';
import type { RunOrigin } from '../model/origin.ts';
import { LessonRun } from '../lesson/lesson.ts';
import { loadCodeModule } from '../loadCodeModule.ts';
import type { RankStateReport } from '../membership/membership.ts';
import type { Generation } from '../membership/generation.ts';
import type { ReadyRank } from '../membership/readyAnnouncer.ts';
import type { PipelineOutputs } from '../model/pipelineOutputs.ts';
import { SpectatorFeed } from '../spectators/spectatorFeed.ts';
import { Autosave, type AutosaveOptions } from '../storage/autosave.ts';
import type { runUnlessOtherTabDoes } from '../storage/browserLock.ts';
import type { Checkpoints } from '../storage/checkpoints.ts';
import { CheckpointBarrier } from '../training/checkpointBarrier.ts';
import type { Run, RunOptions } from './run.ts';
import { SlowLinkDetector } from '../training/telemetry/slowLink.ts';

/**
 * The device that is reported for a lesson. A lesson runs on every tab, because it needs no GPU.
 */
const LESSON_DEVICE: ReportedDevice = { backend: 'cpu', adapter: 'no GPU needed' };

/** Milliseconds between two messages that say how much of the state this tab has received. */
const RECEIVED_EVERY_MS = 5_000;

const loadRun = async (): Promise<typeof Run> => (await loadCodeModule(() => import('./run.ts'))).Run;

type RunPart = Run | LessonRun;

/** A run in which this tab takes part, or is about to take part. */
interface PreparedRun {
  readonly run: number;
  readonly job: JobSpec;
  readonly ready: Promise<RunPart>;
  readonly autosave: Autosave | null;
}

/** The state or the weights from which a run starts, and what was kept when the GPU was lost. */
type Start = Pick<RunOptions, 'from' | 'weights' | 'carryOver'>;

interface TabIdentity {
  room: string;
  member: string;
  isHost: boolean;
  /** The current number of ranks in the room. */
  worldSize: number;
}

export interface CurrentRunOptions {
  clock: Clock;
  /** Names what this thread computes or loads. */
  activity: ThreadActivity;
  /** Returns milliseconds since 1970. */
  today: () => number;
  openDevice: (clock: Clock, kernels: GpuKernelChoice) => Promise<OpenedDevice>;
  openCheckpoints: () => Promise<Checkpoints>;
  whileAlone: typeof runUnlessOtherTabDoes;
  /** The URL to which relative data URLs refer. */
  baseUrl: string;
  files: ChosenFiles;
  place: () => TabIdentity;
  isHidden: () => boolean;
  kernels: () => GpuKernelChoice;
  emit: (event: EngineEvent) => void;
  send: (message: Extract<ClientMessage, { type: 'slow' | 'receiving' | 'spectator-update' }>) => void;
}

export class CurrentRun {
  /** The checkpoint or the weights from which the room's first run starts. */
  origin: RunOrigin | null = null;
  readonly #options: CurrentRunOptions;
  readonly #spectatorFeed: SpectatorFeed;
  #device: Promise<OpenedDevice> | null = null;
  #prepared: PreparedRun | null = null;
  /** This tab's part in the prepared run; `null` until it is ready. */
  #part: RunPart | null = null;
  /** The model of the previous run, until the next run is prepared. */
  #retired: TrainedModel | PipelineOutputs | null = null;
  #recording: FlightRecording | null = null;
  #barrier: CheckpointBarrier | null = null;
  /**
   * The number of calls of {@link end}. If it has changed during an await, the awaited result
   * belongs to an earlier run.
   */
  #ends = 0;

  constructor(options: CurrentRunOptions) {
    this.#options = options;
    const { clock, send } = options;
    this.#spectatorFeed = new SpectatorFeed({ clock, send: (update) => send({ type: 'spectator-update', update }) });
  }

  /** Sets the member ids of the room's spectators. */
  set audience(members: readonly string[]) {
    this.#spectatorFeed.audience = members;
  }

  /** This tab's part in a run that trains a model. */
  get run(): Run | null {
    return this.#part instanceof LessonRun ? null : this.#part;
  }

  get lesson(): LessonRun | null {
    return this.#part instanceof LessonRun ? this.#part : null;
  }

  /** The model that currently answers queries. */
  get model(): TrainedModel | PipelineOutputs | null {
    return this.run?.answerer ?? this.run?.outputs ?? this.#retired;
  }

  get recording(): FlightRecording | null {
    return this.#part?.recording ?? this.#recording;
  }

  /** The run whose state can be saved as a checkpoint; `null` if there is no such state. */
  get openRun(): ResumableRun | null {
    const run = this.run;
    if (!run?.isSavable || this.#prepared === null) return null;
    const { room, member } = this.#options.place();
    const { job } = this.#prepared;
    const about = { room, job, savedAt: this.#options.today(), worldSize: run.worldSize };
    return { snapshot: () => run.snapshot('whole'), about, member };
  }

  /**
   * Returns the checkpoint or weights from which a run of `job` starts. `null` means that the run
   * starts with a new model.
   */
  #originOf(job: JobSpec): RunOrigin | null {
    const { origin } = this;
    // Weights are checked later, when the model exists, by their names and shapes.
    if (origin === null || origin.kind === 'weights') return origin;
    // A checkpoint contains the whole state, so the optimizer of the new run may be sharded or not.
    const { shardOptimizer } = job;
    return JSON.stringify({ ...origin.meta.job, shardOptimizer }) === JSON.stringify(job) ? origin : null;
  }

  /** Begins to load the code of runs. A failure is reported when a run needs the code. */
  load(): void {
    loadRun().catch(() => {});
  }

  /**
   * Opens the device. A later call opens it again only if opening has failed or the GPU was lost.
   */
  #openDevice(): Promise<OpenedDevice> {
    const { openDevice: open, clock, kernels, emit } = this.#options;
    if (this.#device) return this.#device;
    // The code of runs is loaded now, so that the start of a run does not have to wait for it.
    const opening = Promise.all([open(clock, kernels()), loadRun()]).then(
      ([opened]) => {
        emit({ type: 'device', device: opened.device, note: opened.note });
        return opened;
      },
      (error: unknown) => {
        if (this.#device === opening) this.#device = null;
        throw error;
      },
    );
    this.#device = opening;
    return opening;
  }

  /** Resolves with this tab's part in the run. The part is prepared only once. */
  #prepare(run: number, job: JobSpec, worldSize: number): Promise<RunPart> {
    return this.#prepared?.run === run ? this.#prepared.ready : this.#replace(run, job, worldSize, null);
  }

  /**
   * Opens the device and, during a run, prepares this tab's part. Returns `null` if `isCurrent`
   * returns false once the device is open, because the tab may be in a different room by then.
   */
  async makeReady({ phase, run, job, members }: RoomMessage, isCurrent: () => boolean): Promise<ReadyRank | null> {
    const device = job.job === 'lesson' ? LESSON_DEVICE : (await this.#openDevice()).device;
    if (!isCurrent()) return null;
    // An origin is a checkpoint or a file of weights. If there is an origin, this tab already has
    // the state from which the next run starts.
    const stateOfNext = this.#originOf(job) === null ? null : run + 1;
    if (phase === 'FORMING') return { device, stateOfRun: stateOfNext, isBehind: false };
    const part = await this.#prepare(run, job, members.length);
    if (part instanceof LessonRun) return { device, stateOfRun: part.hasState ? run : null, isBehind: false };
    await part.prepareAhead();
    return { device, stateOfRun: part.hasState ? run : null, isBehind: part.canCatchUp };
  }

  async enter(generation: Generation): Promise<RankStateReport> {
    const { run, job, worldSize, signal } = generation;
    const part = await unlessAborted(signal, this.#prepare(run, job, worldSize));
    // Only one run starts from the origin; later runs start with a new model. A run that only
    // measures leaves the origin to the next run.
    if (endsWithModel(job)) this.origin = null;
    return part.enter(generation);
  }

  async train({ run, job, worldSize }: Generation): Promise<RankStateReport> {
    const part = await this.#prepare(run, job, worldSize);
    const state = await part.train();
    // Spectators receive the result now, because the server forwards updates only while this rank
    // is in a generation.
    if (!(part instanceof LessonRun) && part.result) {
      this.#spectatorFeed.observe({ type: 'finished', result: part.result });
    }
    return state;
  }

  /**
   * Ends the run. Its model still answers queries. Returns an error that explains why there is no
   * result. Returns `null` if there is a result, or if a lesson has finished, because lessons have
   * no result.
   */
  finish(outcome: RunOutcome, message: string): RunOverError | null {
    const { lesson } = this;
    const result = outcome === 'finished' ? this.run?.result : null;
    if (outcome === 'finished') this.#prepared?.autosave?.discard(result?.steps ?? 0);
    if (result) this.#options.emit({ type: 'finished', result });
    this.#retire();
    const isLessonOver = outcome === 'finished' && lesson !== null;
    return result || isLessonOver ? null : new RunOverError(message);
  }

  /**
   * Opens the lost GPU again, and prepares the run from the data that the CPU still has. If the run
   * has ended in the meantime, it is not prepared.
   */
  async recover(): Promise<void> {
    const run = this.run;
    const prepared = this.#prepared;
    this.#options.emit({
      type: 'warmup',
      stage: 'recovering',
      message: 'The GPU was lost and is being opened again',
    });
    // If the CPU has no state, this rank later receives the state of the other ranks.
    const begun = this.#ends;
    const from = run?.isSavable ? await run.snapshot().catch(() => null) : null;
    const carryOver = run?.carryOver ?? null;
    const isReplaced = this.#ends !== begun;
    if (!isReplaced) this.end();
    const ended = this.#ends;
    this.#device = null;
    await this.#openDevice();
    if (isReplaced || this.#ends !== ended || !prepared || !carryOver) return;
    const weights = from === null ? carryOver.weights : null;
    await this.#replace(prepared.run, prepared.job, this.#options.place().worldSize, { from, weights, carryOver });
  }

  /** Saves the state now, because ranks that have left may not return. */
  save(): void {
    const run = this.run;
    if (run?.isSavable && run.isWhole) this.#prepared?.autosave?.save(run);
  }

  /** Makes the run pause after each comparison of states, until {@link release} is called. */
  hold(): void {
    this.#barrier = new CheckpointBarrier(this.#options.clock);
  }

  release(step: number): void {
    this.#barrier?.release(step);
  }

  end(): void {
    this.#ends += 1;
    this.#spectatorFeed.stop();
    this.#recording = this.recording;
    this.#part?.dispose();
    if (this.#retired !== null && 'model' in this.#retired) this.#retired.model.dispose();
    else this.#retired?.dispose();
    this.#part = null;
    this.#retired = null;
    this.#prepared = null;
  }

  #retire(): void {
    this.#recording = this.recording;
    const retired = this.run?.retire() ?? null;
    if (retired) this.#part = null;
    this.end();
    this.#retired = retired;
  }

  #replace(run: number, job: JobSpec, worldSize: number, remains: Start | null): Promise<RunPart> {
    this.end();
    this.#barrier?.reset();
    const origin = this.#originOf(job);
    const checkpoint = origin?.kind === 'checkpoint' ? origin : null;
    const autosave =
      endsWithModel(job) && canJobSaveCheckpoints(job) ? this.#autosaveOf(job, checkpoint?.meta ?? null) : null;
    const emit = this.#observer(autosave);
    const weights = origin?.kind === 'weights' ? origin.weights : null;
    const start = remains ?? { from: checkpoint?.state ?? null, weights, carryOver: null };
    const ready: Promise<RunPart> =
      job.job === 'lesson'
        ? Promise.resolve(this.#createLesson(emit))
        : this.#createRun({ run, job, worldSize, emit, ...start }, autosave);
    const prepared = { run, job, ready, autosave };
    this.#prepared = prepared;
    ready.then(
      (part) => {
        if (this.#prepared === prepared) this.#part = part;
        else part.dispose();
      },
      () => {
        if (this.#prepared === prepared) this.#prepared = null;
      },
    );
    return ready;
  }

  /** Returns a function that receives the run's events. */
  #observer(autosave: Autosave | null): (event: EngineEvent) => void {
    const { emit, send, clock } = this.#options;
    const slowLink = new SlowLinkDetector();
    let shown = { percent: -1, at: -Infinity };
    return (event) => {
      emit(event);
      if (event.type === 'warmup' && event.received) {
        const { bytes, total, waitsMs } = event.received;
        const percent = waitsMs === null ? Math.floor((100 * bytes) / total) : 100;
        if (percent !== shown.percent && clock.now() - shown.at >= RECEIVED_EVERY_MS) {
          shown = { percent, at: clock.now() };
          send({ type: 'receiving', percent });
        }
      }
      this.#spectatorFeed.observe(event);
      const slow = slowLink.observe(event);
      if (slow) send({ type: 'slow', ...slow });
      // All ranks have just compared this state, and it is equal on all of them.
      if (event.type === 'hashes' && event.agree && this.run?.isWhole) autosave?.offer(this.run);
    };
  }

  async #createRun(
    options: Start & Pick<RunOptions, 'run' | 'job' | 'worldSize' | 'emit'>,
    autosave: Autosave | null,
  ): Promise<Run> {
    const { files, baseUrl, clock, activity, isHidden } = this.#options;
    const chosen = files.files;
    const shared = files.sharedOf(options.job);
    const opened = await this.#openDevice();
    return (await loadRun()).prepare({
      ...options,
      ...{ files: chosen, shared, baseUrl, opened, clock, activity, isHidden },
      onagreed: async (step) => this.#barrier?.until(step),
      savesState: (localRank) => this.#barrier !== null || (localRank === 0 && (autosave?.isDue ?? false)),
    });
  }

  #createLesson(emit: (event: EngineEvent) => void): LessonRun {
    const { clock, place } = this.#options;
    return new LessonRun({ member: place().member, clock, isHost: () => place().isHost, emit });
  }

  #autosaveOf(job: JobSpec, origin: AutosaveOptions['origin']): Autosave {
    const { clock, today, openCheckpoints, whileAlone: runAlone, emit, place } = this.#options;
    const { room, member } = place();
    return new Autosave({
      room,
      member,
      job,
      origin,
      clock,
      today,
      openCheckpoints,
      whileAlone: (task) => runAlone(`peergrad-autosave-${room}`, task),
      onsaved: (step) => emit({ type: 'saved', step }),
      onnote: (message) => emit({ type: 'note', message }),
    });
  }
}
