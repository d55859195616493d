/**
 * The engine of one tab. It receives commands and emits events, joins a room, and takes part in
 * each run of the room. It runs in a worker or on the page itself.
 */
import type { NoticeMessage } from '../protocol/notices.ts';
import { PROTOCOL_VERSION, type RoomMessage } from '../protocol/control.ts';
import { roomSettingsOf } from '../protocol/room.ts';
import { MAX_WORLD_SIZE } from '../protocol/scalars.ts';
import type { EngineEvent } from '../protocol/events.ts';
import type { EngineCommand } from '../protocol/commands.ts';
import type { NewcomerHooks } from '../parallel/recovery/stateFeed.ts';
import { errorMessageOf, PeergradError, RunOverError } from '../util/errors.ts';
import type { GpuKernelChoice } from '../spec/names.ts';
import { ChosenFiles } from './files/chosenFiles.ts';
import { loadCodeModule } from './loadCodeModule.ts';
import type { RunOrigin } from './model/origin.ts';
import { ModelQueries } from './model/modelQueries.ts';
import type { Generation } from './membership/generation.ts';
import type { RunEnd } from './membership/membership.ts';
import type { RendezvousOptions } from './membership/rendezvousOptions.ts';
import { Rendezvous } from './membership/rendezvous.ts';
import {
  nextReadiness,
  INITIAL_READINESS,
  errorScopeOf,
  type ReadinessEffect,
  type ReadinessEvent,
  type ReadinessState,
} from './readiness.ts';
import { Spectator } from './spectators/spectator.ts';
import { CurrentRun, type CurrentRunOptions } from './run/currentRun.ts';

/** In a room that was opened on a page, ranks may join and leave at any time. */
const ANY_NODES = { min: 1, max: MAX_WORLD_SIZE };

export interface SessionOptions
  extends
    Pick<
      RendezvousOptions,
      'clock' | 'random' | 'openSocket' | 'browserId' | 'connectPeer' | 'connectTab' | 'connectServer'
    >,
    Pick<CurrentRunOptions, 'activity' | 'today' | 'openDevice' | 'openCheckpoints' | 'whileAlone' | 'baseUrl'> {
  emit: (event: EngineEvent) => void;
}

export class Session {
  readonly #options: SessionOptions;
  readonly #files: ChosenFiles;
  readonly #current: CurrentRun;
  readonly #queries: ModelQueries;
  #rendezvous: Rendezvous | null = null;
  #readiness: ReadinessState = INITIAL_READINESS;
  #code = '';
  #spectator: Spectator | null = null;
  #isHidden = false;
  #kernels: GpuKernelChoice = 'own';
  /**
   * The number of commands so far to enter or leave a room. A command that is still reading a file
   * is cancelled by a later command of these kinds.
   */
  #entries = 0;

  constructor(options: SessionOptions) {
    const { emit } = options;
    this.#options = options;
    this.#files = new ChosenFiles({
      emit,
      room: () => this.#readiness.room,
      isHost: () => this.#isHost,
      configure: (job) => this.#rendezvous?.send({ type: 'configure', job }),
    });
    this.#current = new CurrentRun({
      ...options,
      files: this.#files,
      place: () => ({
        room: this.#code,
        member: this.#readiness.member,
        isHost: this.#isHost,
        worldSize: this.#readiness.room?.members.length ?? 1,
      }),
      isHidden: () => this.#isHidden,
      kernels: () => this.#kernels,
      send: (message) => this.#rendezvous?.send(message),
    });
    this.#queries = new ModelQueries(this.#current, emit, (error) => this.#fail(error, false));
  }

  command(command: EngineCommand): void {
    switch (command.type) {
      case 'create':
      case 'join':
        void this.#enterRoom(command);
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
        this.#files.choose(command.files);
        return this.#dispatch({ type: 'files', files: command.files });
      case 'lesson':
        return this.#current.lesson?.order(command.order);
      case 'visibility':
        this.#isHidden = command.isHidden;
        return;
      case 'wake':
        return this.#rendezvous?.wake();
      case 'recording':
        return this.#emitRecording();
      case 'predict':
      case 'inspect':
      case 'generate':
      case 'export':
        return this.#queries.ask(command);
      case 'checkpoint-barrier':
        return this.#current.hold();
      case 'checkpoint-saved':
        return this.#current.release(command.step);
      case 'leave':
        this.#entries += 1;
        this.#rendezvous?.leave();
        this.#rendezvous = null;
        this.#dispatch({ type: 'left' });
        return this.#current.end();
      default:
        command satisfies never;
    }
  }

  /**
   * Opens or joins a room. First loads the checkpoint or the weights from which the room's first
   * run starts.
   */
  async #enterRoom(command: Extract<EngineCommand, { type: 'create' | 'join' }>): Promise<void> {
    const { emit, openCheckpoints } = this.#options;
    this.#entries += 1;
    const entry = this.#entries;
    this.#kernels = command.kernels ?? 'own';
    const source = command.type === 'create' ? (command.resume ?? command.origin) : command.origin;
    let origin: RunOrigin | null = null;
    try {
      // Most rooms start without such a file, so tabs do not need the code that reads it.
      if (source !== undefined)
        origin = await (await loadCodeModule(() => import('./model/origin.ts'))).loadRunOrigin(source, openCheckpoints);
    } catch (error) {
      if (this.#entries === entry) this.#fail(error, true);
      return;
    }
    if (this.#entries !== entry) return;
    if (origin?.kind === 'checkpoint') emit({ type: 'checkpoint', step: origin.meta.step });
    if (origin?.kind === 'weights') {
      const { file, notes } = origin.weights;
      emit({ type: 'weights', file, notes });
    }
    this.#rendezvous?.leave();
    this.#current.end();
    this.#current.origin = origin;
    this.#spectator = command.isSpectator ? new Spectator(emit) : null;
    this.#dispatch({ type: 'entered', isSpectator: command.isSpectator ?? false });
    this.#rendezvous = this.#createRendezvous(command.server, helloOf(command));
    void this.#rendezvous.start();
  }

  #createRendezvous(server: string, hello: RendezvousOptions['hello']): Rendezvous {
    const { emit } = this.#options;
    const spectator = this.#spectator;
    return new Rendezvous({
      ...this.#options,
      server,
      hello,
      onadmitted: ({ member, room, hostKey }) => {
        this.#code = room;
        emit({ type: 'admitted', member, room, hostKey });
        this.#dispatch({ type: 'admitted', member });
        if (spectator === null) this.#current.load();
      },
      onhostkey: (room, hostKey) => emit({ type: 'hostKey', room, hostKey }),
      onroom: (message) => this.#onRoom(message),
      onspectatorupdate: (update) => spectator?.receive(update),
      onstate: (status) => emit({ type: 'state', ...status }),
      enter: (generation) => this.#current.enter(generation),
      train: (generation) => this.#current.train(generation),
      feed: (feed, hooks) => this.#feed(feed, hooks),
      scopeOf: (error) => {
        const scope = errorScopeOf(this.#readiness, error);
        this.#dispatch({ type: 'failed', error });
        return scope;
      },
      onnote: ({ message, notice }) => emit({ type: 'note', message, notice }),
      onsuspended: ({ message, notice }) => emit({ type: 'suspended', message, notice }),
      onended: (ended) => (spectator ? spectator.end(ended) : this.#onEnded(ended)),
      onrefused: (error) => this.#fail(error, false),
      onfatal: (error) => {
        this.#dispatch({ type: 'left' });
        this.#fail(error, true);
      },
    });
  }

  #onRoom(message: RoomMessage): void {
    const { phase, hosts, members, spectators, waitingFor, served } = message;
    const links = served && { served };
    this.#options.emit({
      type: 'room',
      phase,
      hosts,
      members,
      spectators,
      waitingFor,
      ...links,
      ...roomSettingsOf(message),
    });
    this.#spectator?.follow(message);
    this.#current.audience = spectators.map(({ member }) => member);
    this.#dispatch({ type: 'room', message });
  }

  #dispatch(event: ReadinessEvent): void {
    const { state, effects } = nextReadiness(this.#readiness, event);
    this.#readiness = state;
    for (const effect of effects) this.#carryOut(effect);
  }

  #carryOut(effect: ReadinessEffect): void {
    switch (effect.type) {
      case 'inspect':
        void this.#inspect(effect);
        return;
      case 'prepare':
        void this.#prepare(effect);
        return;
      case 'announce':
        return this.#rendezvous?.announce(effect.rank);
      case 'share':
        this.#files.share(effect.isRequested).catch((error: unknown) => this.#fail(error, false));
        return;
      case 'save':
        return this.#current.save();
      case 'discard':
        return this.#current.end();
      case 'recover':
        this.#current.recover().then(
          () => this.#dispatch({ type: 'recovered' }),
          (error: unknown) => this.#dispatch({ type: 'unrecovered', error }),
        );
        return;
      case 'fail':
        return this.#fail(effect.error, effect.isFatal);
      case 'leave':
        return this.#rendezvous?.leave();
      default:
        effect satisfies never;
    }
  }

  async #inspect({ id, job }: Extract<ReadinessEffect, { type: 'inspect' }>): Promise<void> {
    try {
      const isFit = await this.#files.inspect(job, () => this.#readiness.inspection?.id === id);
      if (isFit !== null) this.#dispatch({ type: 'inspected', id, isFit });
    } catch (error) {
      this.#dispatch({ type: 'uninspected', id, error });
    }
  }

  async #prepare({ id, room }: Extract<ReadinessEffect, { type: 'prepare' }>): Promise<void> {
    const rendezvous = this.#rendezvous;
    try {
      const rank = await this.#current.makeReady(room, () => this.#readiness.announcement?.id === id);
      if (rank === null) return;
      // A rank that still works for an earlier generation would delay the other ranks, so this rank
      // is ready only after that work.
      await rendezvous?.freed();
      this.#dispatch({ type: 'prepared', id, rank });
    } catch (error) {
      this.#dispatch({ type: 'unprepared', id, error });
    }
  }

  async #feed(feed: Generation, hooks: NewcomerHooks): Promise<void> {
    const { run } = this.#current;
    if (run?.number !== feed.run) throw new RunOverError('This tab does not take part in this run.');
    await run.feed(feed, hooks);
  }

  #onEnded({ run, outcome, message, notice }: RunEnd): void {
    const error = this.#current.finish(outcome, message);
    if (error) this.#fail(error, false, notice);
    this.#dispatch({ type: 'ended', run });
  }

  get #isHost(): boolean {
    const { room, member } = this.#readiness;
    return room?.hosts.includes(member) ?? false;
  }

  #emitRecording(): void {
    this.#options.emit({ type: 'recording', recording: this.#current.recording });
  }

  #fail(error: unknown, fatal: boolean, notice?: NoticeMessage['notice']): void {
    if (fatal) this.#emitRecording();
    const name = error instanceof PeergradError ? error.name : 'Error';
    this.#options.emit({ type: 'failed', name, message: errorMessageOf(error), fatal, ...(notice && { notice }) });
  }
}

/** Returns the message with which a tab opens or joins a room. */
function helloOf(command: Extract<EngineCommand, { type: 'create' | 'join' }>): RendezvousOptions['hello'] {
  const { type, name, rank, isSpectator } = command;
  const newcomer = { version: PROTOCOL_VERSION, name, rank, isSpectator } as const;
  if (type === 'create') {
    return { type, ...newcomer, job: command.job, startAt: command.startAt, nodes: ANY_NODES };
  }
  return { type, ...newcomer, room: command.room, hostKey: command.hostKey };
}
