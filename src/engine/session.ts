/**
 * One tab's engine: does what the page commands, joins a room, trains each of its runs, and tells
 * all of it in events. Knows no thread: it runs in a worker, or on the page itself.
 */
import { inspectFiles } from '../jobs/index.ts';
import { MAX_WORLD_SIZE } from '../protocol/scalars.ts';
import { PROTOCOL_VERSION, type ClientMessage, type ServerMessage } from '../protocol/control.ts';
import type { Device } from '../protocol/room.ts';
import type { EngineCommand } from '../protocol/commands.ts';
import type { EngineEvent } from '../protocol/events.ts';
import type { FlightRecording } from '../protocol/flightRecording.ts';
import { isChosenByTabs, isElastic, keepsModel, type JobSpec } from '../spec/job.ts';
import { demandsOf, hasPreview } from '../spec/preview.ts';
import type { Clock } from '../util/clock.ts';
import { unlessAborted } from '../util/deadline.ts';
import { DataError, DeviceError, DivergenceError, messageOf, PeergradError, RunOverError } from '../util/errors.ts';
import { Autosave, type AutosaveOptions } from './storage/autosave.ts';
import type { whileAlone } from './storage/browserLock.ts';
import type { Checkpoints } from './storage/checkpoints.ts';
import type { openDevice, OpenedDevice } from './device/device.ts';
import { answer } from './inference/inspection.ts';
import { CheckpointBarrier } from './training/checkpointBarrier.ts';
import { LessonRun } from './lesson/lesson.ts';
import type { PeerConnector, TabConnector } from './membership/linkAttempt.ts';
import type { StateReport } from './membership/membership.ts';
import { exportModel, readOrigin, type OpenRun, type Origin, type TrainedModel } from './files/modelFiles.ts';
import { fromCheckpoint } from './storage/runCheckpoint.ts';
import { Rendezvous, type Generation, type RendezvousOptions } from './membership/rendezvous.ts';
import { SharedFiles } from './files/sharedFiles.ts';
import { SlowLink } from './training/slowLink.ts';
import { Spectator } from './spectators/spectator.ts';
import { SpectatorFeed } from './spectators/spectatorFeed.ts';
import { RunParticipant, type CarryOver } from './training/runParticipant.ts';
import type { RunState } from './training/trainingLoop.ts';

/**
 * Times a tab's GPU may be lost in a run before the tab gives up: a driver that falls over again
 * and again helps nobody.
 */
const MAX_RECOVERIES = 3;

/**
 * Times a tab's state may turn out to differ from the others' in a run: a machine that computes
 * wrongly does so again.
 */
const MAX_DIVERGENCES = 2;

/**
 * While files go round, the server is told so often, milliseconds, that they do; it waits six times
 * as long.
 */
const SYNCING_TOLD_MS = 20_000;

/** What a lesson computes on: every tab can. */
const LESSON_DEVICE: Device = { backend: 'cpu', adapter: 'no GPU needed' };

/** Ranks may come and go in rooms that a page opens. */
const ANY_NODES = { min: 1, max: MAX_WORLD_SIZE };

export interface SessionOptions extends Pick<RendezvousOptions, 'clock' | 'random' | 'openSocket' | 'browserId'> {
  connectPeer: PeerConnector;
  connectTab: TabConnector;
  openDevice: typeof openDevice;
  openCheckpoints: () => Promise<Checkpoints>;
  whileAlone: typeof whileAlone;
  /** Returns milliseconds since 1970. */
  today: () => number;
  emit: (event: EngineEvent) => void;
  /** What relative data URLs are relative to. */
  baseUrl: string;
}

/** A tab's part in a run. */
type Part = RunParticipant | LessonRun;

type Hello = Extract<ClientMessage, { type: 'create' | 'join' }>;
type RoomMessage = Extract<ServerMessage, { type: 'room' }>;

export class Session {
  readonly #options: SessionOptions;
  readonly #clock: Clock;
  #rendezvous: Rendezvous | null = null;
  #member = '';
  #code = '';
  #room: RoomMessage | null = null;
  #device: Promise<OpenedDevice> | null = null;
  #files: File[] = [];
  /** Of these files, for a job. */
  #inspection: { files: readonly File[]; of: string; isFit: Promise<boolean> } | null = null;
  /**
   * What this tab has of files that ranks hand on to each other: those of the latest job that has
   * any.
   */
  #shared: SharedFiles | null = null;
  /** When the server was last told that files go round, and how many bytes had then. */
  #syncing = { at: 0, bytes: 0 };
  /** The run that this tab takes part in, or is about to. */
  #training: { run: number; job: JobSpec; ready: Promise<Part>; autosave: Autosave | null } | null = null;
  /** `null`: it trains. */
  #spectator: Spectator | null = null;
  readonly #spectatorFeed: SpectatorFeed;
  /** What the room's first run goes on from. */
  #origin: Origin | null = null;
  /** Of the run that is on, once there is one. */
  #current: Part | null = null;
  /** The model of the run before, until the next one is prepared. */
  #retired: TrainedModel | null = null;
  /** Settles when the model has answered all that it was asked. */
  #answered: Promise<void> = Promise.resolve();
  /** Of the run before. */
  #recording: FlightRecording | null = null;
  /** What it has told the server it is ready for; `null`: nothing, or it must tell again. */
  #announced: string | null = null;
  #isRecovering = false;
  #recoveries = 0;
  #divergences = 0;
  #isHidden = false;
  /** Of a run whose states somebody keeps. */
  #checkpointBarrier: CheckpointBarrier | null = null;
  /** Why this tab cannot take part until something changes. */
  #isOut = false;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#clock = options.clock;
    this.#spectatorFeed = new SpectatorFeed({
      clock: this.#clock,
      send: (update) => this.#rendezvous?.send({ type: 'spectator-update', update }),
    });
  }

  command(command: EngineCommand): void {
    switch (command.type) {
      case 'create':
        void this.#create(command);
        return;
      case 'join':
        void this.#join(command);
        return;
      case 'configure':
      case 'start':
      case 'pause':
      case 'resume':
      case 'stop':
      case 'remove':
      case 'lock':
        return this.#rendezvous?.send(command);
      case 'files':
        this.#files = command.files;
        // A part that was prepared with the files before would fail again.
        if (this.#isOut) this.#endTraining();
        this.#isOut = false;
        this.#options.emit({ type: 'preview', preview: null, problem: null });
        void this.#share();
        void this.#announce();
        return;
      case 'lesson':
        if (this.#current instanceof LessonRun) this.#current.order(command.order);
        return;
      case 'visibility':
        this.#isHidden = command.isHidden;
        return;
      case 'recording':
        return this.#tellRecording();
      case 'predict':
      case 'examine':
      case 'write':
        // One after the other, as what an answer is read with is made once.
        this.#answered = this.#answered.then(async () => {
          this.#options.emit(await answer(command, this.#trained?.answerer ?? this.#retired));
        });
        return;
      case 'export':
        this.#answered = this.#answered.then(async () => {
          const run = this.#openRun;
          const model = run ? this.#trained!.answerer : this.#retired;
          this.#options.emit(await exportModel(command, model, run));
        });
        return;
      case 'hold':
        this.#checkpointBarrier = new CheckpointBarrier(this.#clock);
        return;
      case 'release':
        return this.#checkpointBarrier?.release(command.step);
      case 'leave':
        this.#rendezvous?.leave();
        this.#rendezvous = null;
        return this.#endTraining();
      default:
        command satisfies never;
    }
  }

  /** Opens a room, and loads first what its first run is to go on from. */
  async #create(command: Extract<EngineCommand, { type: 'create' }>): Promise<void> {
    const { server, name, rank, isSpectator, job, startAt, resume } = command;
    const who = { version: PROTOCOL_VERSION, name, rank, isSpectator } as const;
    const hello = { type: 'create', ...who, job, startAt, nodes: ANY_NODES } as const;
    await this.#enterWith(server, hello, async () => {
      if (resume === undefined) return command.origin ? readOrigin(command.origin) : null;
      const checkpoint = await (await this.#options.openCheckpoints()).load(resume);
      return { kind: 'checkpoint', meta: checkpoint.meta, state: fromCheckpoint(checkpoint) };
    });
  }

  async #join(command: Extract<EngineCommand, { type: 'join' }>): Promise<void> {
    const { server, name, rank, isSpectator, room, hostKey, origin } = command;
    const hello = { type: 'join', version: PROTOCOL_VERSION, name, rank, isSpectator, room, hostKey } as const;
    await this.#enterWith(server, hello, () => Promise.resolve(origin ? readOrigin(origin) : null));
  }

  /** Enters a room, with what its first run is to go on from or to begin with. */
  async #enterWith(server: string, hello: Hello, readState: () => Promise<Origin | null>): Promise<void> {
    let origin: Origin | null;
    try {
      origin = await readState();
    } catch (error) {
      return this.#fail(error, true);
    }
    if (origin?.kind === 'checkpoint') this.#options.emit({ type: 'checkpoint', step: origin.meta.step });
    if (origin?.kind === 'weights') this.#options.emit({ type: 'weights', file: origin.weights.file });
    this.#enter(server, hello);
    this.#origin = origin;
  }

  #enter(server: string, hello: Hello): void {
    const { connectPeer, connectTab, random, openSocket, browserId, emit } = this.#options;
    this.#rendezvous?.leave();
    this.#endTraining();
    this.#origin = null;
    this.#room = null;
    this.#announced = null;
    const spectator = hello.isSpectator ? new Spectator(emit) : null;
    this.#spectator = spectator;
    const rendezvous = new Rendezvous({
      ...{ server, hello, connectPeer, connectTab, random, openSocket, browserId, clock: this.#clock },
      onadmitted: ({ member, room, hostKey }) => {
        this.#member = member;
        this.#code = room;
        this.#announced = null;
        emit({ type: 'admitted', member, room, hostKey });
        void this.#announce();
      },
      onhostkey: (room, hostKey) => emit({ type: 'hostKey', room, hostKey }),
      onroom: (message) => this.#onRoom(message),
      onspectatorupdate: (update) => spectator?.receive(update),
      onstate: (status) => emit({ type: 'state', ...status }),
      enter: (generation) => this.#enterGeneration(generation),
      train: (generation) => this.#train(generation),
      scopeOf: (error) => this.#scopeOf(error),
      onsuspended: (message) => emit({ type: 'note', message }),
      onended: (outcome, message) => {
        if (spectator) spectator.end(outcome, message);
        else this.#onEnded(outcome, message);
      },
      onrefused: (error) => this.#fail(error, false),
      onfatal: (error) => this.#fail(error, true),
    });
    this.#rendezvous = rendezvous;
    void rendezvous.start();
  }

  #onRoom(message: RoomMessage): void {
    const { phase, hosts, members, spectators, job, startAt, nodes, isLocked, isHeld, waitingFor } = message;
    this.#options.emit({
      ...{ type: 'room', phase, hosts, members, spectators },
      ...{ job, startAt, nodes, isLocked, isHeld, waitingFor },
    });
    this.#spectator?.follow(message);
    this.#spectatorFeed.audience = spectators.map(({ member }) => member);
    const isPaused = phase === 'PAUSED' && this.#room?.phase !== 'PAUSED';
    const before = this.#room?.job.data;
    // What was wrong with the data may not be with other data, or where something else is asked of
    // them.
    if (this.#room && dataOf(this.#room.job) !== dataOf(job)) this.#isOut = false;
    // The server has given this rank up, as it was late: it is as ready as before.
    if (this.#isCountedIn(this.#room) && !this.#isCountedIn(message)) this.#announced = null;
    this.#room = message;
    // Files that were chosen before the host said that they are for all.
    if (before !== undefined && before.kind !== 'shared' && job.data.kind === 'shared') void this.#share();
    // Who is missing may not come back.
    if (isPaused && !this.#isOut && this.#trained?.hasState) this.#training?.autosave?.save(this.#trained);
    void this.#announce();
  }

  /**
   * Says that this rank can be counted on: once its device is open and it has what the job needs;
   * while a run is on, once it is prepared so far that the others need not wait for it.
   */
  async #announce(): Promise<void> {
    const [rendezvous, room] = [this.#rendezvous, this.#room];
    if (!rendezvous || !room || this.#spectator || this.#isOut || this.#isRecovering) return;
    const { phase, run, job, members } = room;
    const { kind } = job.data;
    if (hasPreview(job.job) && this.#isGiven(job)) {
      const isFit = await this.#inspect(job);
      // What came meanwhile has asked anew.
      if (!isFit || this.#room !== room || this.#rendezvous !== rendezvous) return;
    }
    const isRunOn = phase !== 'FORMING';
    const due = isRunOn ? `${kind} ${run}` : kind;
    const isCounted = this.#isCountedIn(room);
    if (this.#announced === due || (isRunOn && isCounted && this.#announced !== null)) return;
    if (isChosenByTabs(job.data) && this.#files.length === 0) return;
    if (job.data.kind === 'shared' && job.data.files.length === 0) return;
    this.#announced = due;
    try {
      const device = job.job === 'lesson' ? LESSON_DEVICE : (await this.#openDevice()).device;
      const training = isRunOn ? await this.#prepare(run, job, members.length) : null;
      if (training instanceof RunParticipant) await training.prepareAhead();
      // A checkpoint's state is that of the run to come.
      const hasState = training === null ? this.#originOf(job) !== null : training.hasState;
      const holds = hasState ? (isRunOn ? run : run + 1) : null;
      // A rank that hangs in what it did before would hold up the others again.
      await rendezvous.freed();
      if (this.#announced === due) rendezvous.send({ type: 'ready', device, holds });
    } catch (error) {
      if (this.#rendezvous !== rendezvous) return;
      this.#isOut = true;
      this.#fail(error, error instanceof DeviceError);
      if (error instanceof DeviceError) rendezvous.leave();
    }
  }

  /** Whether this tab's user has chosen the files that `job` learns from. */
  #isGiven({ data }: JobSpec): boolean {
    if (isChosenByTabs(data)) return this.#files.length > 0;
    if (data.kind !== 'shared' || data.files.length === 0) return false;
    const told = data.files.map(({ name, size }) => ({ name, size }));
    return JSON.stringify(told) === JSON.stringify(this.#files.map(({ name, size }) => ({ name, size })));
  }

  /** Tells what the files hold for `job`, once; whether they can be trained on. */
  #inspect(job: JobSpec): Promise<boolean> {
    const files = this.#files;
    const of = demandsOf(job);
    if (this.#inspection?.files === files && this.#inspection.of === of) return this.#inspection.isFit;
    const isFit = inspectFiles(job, files).then((found) => {
      if (this.#inspection?.isFit === isFit) this.#options.emit({ type: 'preview', ...found });
      return found.problem === null;
    });
    this.#inspection = { files, of, isFit };
    return isFit;
  }

  /**
   * Reads the files that the user chose for all, and says which they are, where the job is of
   * others.
   */
  async #share(): Promise<void> {
    const files = this.#files;
    if (this.#room?.job.data.kind !== 'shared' || files.length === 0) return;
    const total = files.reduce((sum, { size }) => sum + size, 0);
    const rendezvous = this.#rendezvous;
    const tell = (bytes: number): void => {
      if (this.#files === files) this.#options.emit({ type: 'reading', bytes, total });
    };
    try {
      tell(0);
      const shared = await SharedFiles.chosen(files, tell);
      const room = this.#room;
      // Another room, meanwhile, is not told of them.
      if (this.#files !== files || this.#rendezvous !== rendezvous || room.job.data.kind !== 'shared') return;
      if (shared.isOf(room.job.data.files)) this.#shared = shared;
      else if (room.phase === 'FORMING') {
        this.#shared = shared;
        const data = { kind: 'shared' as const, files: [...shared.manifest] };
        rendezvous?.send({ type: 'configure', job: { ...room.job, data } });
      } else {
        const wanted = room.job.data.files.map(({ name }) => name).join(', ');
        throw new DataError(
          `These are other files than those of the run that is on, ${wanted}: choose those, or wait for its end.`,
        );
      }
      tell(total);
    } catch (error) {
      if (this.#files === files) this.#fail(error, false);
    }
  }

  /** What this tab has of the files that a job's ranks hand on; `null` where they do not. */
  #sharedOf({ data }: JobSpec): SharedFiles | null {
    if (data.kind !== 'shared') return null;
    if (!this.#shared?.isOf(data.files)) this.#shared = SharedFiles.awaited(data.files);
    return this.#shared;
  }

  /** Files go round: the server waits for as long as they do. */
  #keepSyncing({ generation, held }: Extract<EngineEvent, { type: 'file-distribution' }>): void {
    const bytes = held.reduce((sum, one) => sum + one, 0);
    const now = this.#clock.now();
    if (now - this.#syncing.at < SYNCING_TOLD_MS || bytes === this.#syncing.bytes) return;
    this.#syncing = { at: now, bytes };
    this.#rendezvous?.send({ type: 'syncing', generation });
  }

  #isCountedIn(room: RoomMessage | null): boolean {
    return room?.members.some(({ member, device }) => member === this.#member && device !== null) ?? false;
  }

  #openDevice(): Promise<OpenedDevice> {
    this.#device ??= this.#options.openDevice(this.#clock).then((opened) => {
      this.#options.emit({ type: 'device', device: opened.device, note: opened.note });
      return opened;
    });
    return this.#device;
  }

  /** What a run of this job goes on from; `null`: it begins at the beginning. */
  #originOf(job: JobSpec): Origin | null {
    const origin = this.#origin;
    // Weights are looked at by name and shape, once there is a model.
    if (origin === null || origin.kind === 'weights') return origin;
    return JSON.stringify(origin.meta.job) === JSON.stringify(job) ? origin : null;
  }

  /** Of the run that is on: its state, as a checkpoint has it. */
  get #openRun(): OpenRun | null {
    const trained = this.#trained;
    const job = this.#training?.job;
    if (!trained?.hasState || job === undefined) return null;
    const about = { room: this.#code, job, savedAt: this.#options.today(), worldSize: trained.worldSize };
    return { snapshot: () => trained.snapshot(), about, member: this.#member };
  }

  /** This tab's part in a run, made once. */
  #prepare(
    run: number,
    job: JobSpec,
    worldSize: number,
    kept: { state: RunState | null; carryOver: CarryOver } | null = null,
  ): Promise<Part> {
    if (this.#training?.run === run && kept === null) return this.#training.ready;
    this.#endTraining();
    const { baseUrl } = this.#options;
    const origin = this.#originOf(job);
    const checkpoint = origin?.kind === 'checkpoint' ? origin : null;
    const from = kept ? kept.state : (checkpoint?.state ?? null);
    const carryOver = kept?.carryOver ?? null;
    const begun = origin?.kind === 'weights' ? origin.weights : null;
    const weights = kept ? (kept.state === null ? kept.carryOver.weights : null) : begun;
    const autosave = keepsModel(job) && isElastic(job) ? this.#autosaveOf(job, checkpoint?.meta ?? null) : null;
    this.#checkpointBarrier?.reset();
    const slowLink = new SlowLink();
    const emit = (event: EngineEvent): void => {
      this.#options.emit(event);
      this.#spectatorFeed.observe(event);
      if (event.type === 'file-distribution') this.#keepSyncing(event);
      const slow = slowLink.observe(event);
      if (slow) this.#rendezvous?.send({ type: 'slow', ...slow });
      // All ranks have just compared states: this is one to go on from.
      if (event.type === 'hashes' && event.agree && this.#trained) autosave?.offer(this.#trained);
    };
    const shared = this.#sharedOf(job);
    const ready: Promise<Part> =
      job.job === 'lesson'
        ? Promise.resolve(this.#createLesson(emit))
        : this.#openDevice().then((opened) =>
            RunParticipant.prepare({
              ...{ job, run, worldSize, files: this.#files, shared, baseUrl, opened },
              ...{ clock: this.#clock, emit, from, weights, carryOver },
              onagreed: async (step) => this.#checkpointBarrier?.until(step),
              isHidden: () => this.#isHidden,
            }),
          );
    const training = { run, job, ready, autosave };
    this.#training = training;
    ready.then(
      (prepared) => {
        if (this.#training === training) this.#current = prepared;
        else prepared.dispose();
      },
      () => {
        if (this.#training === training) this.#training = null;
      },
    );
    return ready;
  }

  /** The current run, where it trains. */
  get #trained(): RunParticipant | null {
    return this.#current instanceof RunParticipant ? this.#current : null;
  }

  #createLesson(emit: (event: EngineEvent) => void): LessonRun {
    const member = this.#member;
    const isHost = (): boolean => this.#room?.hosts.includes(member) ?? false;
    return new LessonRun({ member, clock: this.#clock, isHost, emit });
  }

  #autosaveOf(job: JobSpec, origin: AutosaveOptions['origin']): Autosave {
    const { today, openCheckpoints, whileAlone } = this.#options;
    return new Autosave({
      ...{ room: this.#code, member: this.#member, job, origin, clock: this.#clock, today, openCheckpoints },
      whileAlone: (task) => whileAlone(`peergrad-autosave-${this.#code}`, task),
      onsaved: (step) => this.#options.emit({ type: 'saved', step }),
      onnote: (message) => this.#options.emit({ type: 'note', message }),
    });
  }

  #endTraining(): void {
    this.#spectatorFeed.stop();
    this.#recording = this.#current?.recording ?? this.#recording;
    this.#current?.dispose();
    this.#retired?.model.dispose();
    this.#current = null;
    this.#retired = null;
    this.#training = null;
  }

  /** As {@link #endTraining}, but the model still answers. */
  #retireTraining(): void {
    this.#recording = this.#current?.recording ?? this.#recording;
    const retired = this.#trained?.retire() ?? null;
    if (retired) this.#current = null;
    this.#endTraining();
    this.#retired = retired;
  }

  async #enterGeneration(generation: Generation): Promise<StateReport> {
    const training = await unlessAborted(
      generation.signal,
      this.#prepare(generation.run, generation.job, generation.worldSize),
    );
    // A later run begins at the beginning, unless this one only looks for the rate to train with.
    if (generation.job.schedule !== 'range-test') this.#origin = null;
    return training.enter(generation);
  }

  async #train({ run, job, worldSize }: Generation): Promise<StateReport> {
    const training = await this.#prepare(run, job, worldSize);
    const state = await training.train();
    // While the room still knows this rank for one: with the last word of all it is none.
    if (training instanceof RunParticipant && training.result) {
      this.#spectatorFeed.observe({ type: 'finished', result: training.result });
    }
    return state;
  }

  /** What an error of this rank's means for the others; a lost GPU is set up again. */
  #scopeOf(error: unknown): ReturnType<RendezvousOptions['scopeOf']> {
    if (error instanceof DeviceError) {
      this.#announced = null;
      void this.#recover(error);
      return 'rank';
    }
    const { divergent, rank } = error instanceof PeergradError ? error.context : {};
    // What ranks have handed on is the same for all.
    const isEveryones = this.#room?.job.data.kind === 'shared';
    if (divergent === undefined && (!(error instanceof DataError) || isEveryones)) return 'run';
    // Others differ from this rank and most: they will tell.
    if (divergent !== undefined && !(rank !== undefined && divergent.includes(rank))) return 'generation';
    // A state that differs is replaced as the next generation begins; data and models that do stay
    // what they are.
    if (error instanceof DivergenceError && ++this.#divergences <= MAX_DIVERGENCES) return 'generation';
    this.#isOut = true;
    this.#fail(error, false);
    return 'rank';
  }

  /** Sets the lost GPU up again on the same page, and gives it the state that the CPU has kept. */
  async #recover(lost: DeviceError): Promise<void> {
    const [current, training] = [this.#trained, this.#training];
    this.#isRecovering = true;
    try {
      if (++this.#recoveries > MAX_RECOVERIES) throw lost;
      this.#options.emit({ type: 'warmup', stage: 'recovering', message: 'The GPU was lost: setting it up again' });
      // What only the GPU had is lost with it; then the others have to give all of it.
      const state = current?.hasState ? await current.snapshot().catch(() => null) : null;
      const carryOver = current?.carryOver ?? null;
      this.#endTraining();
      this.#device = null;
      await this.#openDevice();
      const kept = carryOver && { state, carryOver };
      if (training && kept) await this.#prepare(training.run, training.job, this.#room?.members.length ?? 1, kept);
    } catch (error) {
      this.#fail(error, true);
      return this.#rendezvous?.leave();
    } finally {
      this.#isRecovering = false;
    }
    await this.#announce();
  }

  #onEnded(outcome: 'finished' | 'stopped' | 'failed', message: string): void {
    const result = this.#trained?.result ?? null;
    if (outcome === 'finished') this.#training?.autosave?.discard(result?.steps ?? 0);
    if (outcome === 'finished' && result) this.#options.emit({ type: 'finished', result });
    // A lesson's last state has told.
    else if (outcome !== 'finished' || !(this.#current instanceof LessonRun))
      this.#fail(new RunOverError(message), false);
    this.#recoveries = 0;
    this.#divergences = 0;
    this.#announced = null;
    this.#retireTraining();
  }

  #tellRecording(): void {
    this.#options.emit({ type: 'recording', recording: this.#current?.recording ?? this.#recording });
  }

  #fail(error: unknown, fatal: boolean): void {
    if (fatal) this.#tellRecording();
    const name = error instanceof PeergradError ? error.name : 'Error';
    this.#options.emit({ type: 'failed', name, message: messageOf(error), fatal });
  }
}

/** What a job learns from, and asks of it. */
function dataOf(job: JobSpec): string {
  return JSON.stringify([job.data, demandsOf(job)]);
}
