/**
 * A member's life as the signaling server orders it: admission, links to the neighbours of a
 * generation, synchronization, training, and the next generation. The order is that of
 * `membership.ts`, a pure function; this carries out its effects and passes each generation to
 * `enter` and `train`. A lost connection to the server is made again while there is something to
 * continue: a running ring needs no server.
 */
import { PROTOCOL_VERSION, type ClientMessage, type IceServer, type ServerMessage } from '../../protocol/control.ts';
import { type RosterEntry } from '../../protocol/room.ts';
import { isElastic } from '../../spec/job.ts';
import { localRankOf } from '../../protocol/seating.ts';
import { asError, PeerGoneError, PeergradError, RemovedError, SignalingError } from '../../util/errors.ts';
import { failureEventOf } from './failureEvent.ts';
import type { Generation } from './generation.ts';
import { GenerationLinks } from './generationLinks.ts';
import { LinkPool } from './linkPool.ts';
import {
  advance,
  OUTSIDE,
  reconnectStateOf,
  type MembershipEffect,
  type MembershipEvent,
  type MembershipState,
  type StateReport,
} from './membership.ts';
import { rankStateOf } from './rankState.ts';
import { Reconnection } from './reconnection.ts';
import { isPassing } from './refusal.ts';
import type { ClientRequest, RendezvousOptions } from './rendezvousOptions.ts';
import { SignalingClient } from './signalingClient.ts';

/**
 * How long links stay open after a run that no server ended: a slower neighbour may still need the
 * last frames.
 */
const FAREWELL_MS = 2_000;

/**
 * How long a server that took a connection may take to let a member in; several wait for each
 * other's word on a room.
 */
const ADMISSION_MS = 15_000;
type Hello = Extract<ClientMessage, { type: 'create' | 'join' | 'reconnect' }>;

/** A generation whose links are made or being made. */
interface Live {
  readonly links: GenerationLinks;
  readonly abort: AbortController;
  readonly members: RosterEntry[];
  /** Once its links are up. */
  view: Generation | null;
}

export class Rendezvous {
  readonly #options: RendezvousOptions;
  #client: SignalingClient | null = null;
  #membership: MembershipState = OUTSIDE;
  #admission: Extract<ServerMessage, { type: 'admitted' }> | null = null;
  #browser = '';
  #iceServers: readonly IceServer[] = [];
  #lastRoom: Extract<ServerMessage, { type: 'room' }> | null = null;
  readonly #live = new Map<number, Live>();
  readonly #pool: LinkPool;
  readonly #reconnection: Reconnection;
  /** `enter` and `train` of one generation after the other. */
  #work: Promise<void> = Promise.resolve();
  /** The generation of which one of them is on. */
  #busy: number | null = null;
  #shown = '';
  /** How the last run ended, in a sentence. */
  #outcome: string | null = null;
  #isOver = false;

  constructor(options: RendezvousOptions) {
    this.#options = options;
    this.#reconnection = new Reconnection(options.clock, options.random);
    this.#pool = new LinkPool((member, error) => this.#onLinkLost(member, error));
  }

  /** Connects and asks for admission. What follows comes through the handlers. */
  async start(): Promise<void> {
    this.#browser = await this.#options.browserId();
    try {
      await this.#connect(this.#hello());
    } catch (error) {
      this.#fatal(asError(error));
    }
  }

  send(message: ClientRequest): void {
    this.#client?.send(message);
  }

  /**
   * Resolves once what this rank does in a generation that is over has ended: until then it can be
   * no part of another.
   */
  async freed(): Promise<void> {
    if (this.#busy !== null && !this.#live.has(this.#busy)) await this.#work;
  }

  /** Leaves the room. Idempotent. */
  leave(): void {
    if (this.#isOver) return;
    this.#client?.send({ type: 'leave' });
    this.#end(new PeergradError('This tab left the room.'), 'not connected');
  }

  /** Once this member has left: resolves when the server knows it, or is gone. */
  async left(): Promise<void> {
    await this.#client?.closed;
  }

  async #connect(hello: Hello): Promise<void> {
    const { server, clock } = this.#options;
    const client = await SignalingClient.connect(server, this.#options, {
      onmessage: (message) => this.#receive(message),
      onclose: (error) => this.#onServerLost(error),
    });
    if (this.#isOver) return client.close();
    this.#client = client;
    client.send(hello);
    clock.after(ADMISSION_MS, () => {
      if (this.#client !== client || this.#membership.isConnected) return;
      this.#onServerLost(new SignalingError(`The signaling server did not answer within ${ADMISSION_MS / 1000} s.`));
    });
  }

  #receive(message: ServerMessage): void {
    switch (message.type) {
      case 'admitted':
        return this.#onAdmitted(message);
      case 'room':
        this.#lastRoom = message;
        return this.#options.onroom(message);
      case 'credentials':
        return this.#onCredentials(message);
      case 'ice':
        this.#iceServers = message.iceServers;
        return;
      case 'heartbeat':
        return;
      case 'signal':
        return this.#live.get(message.generation)?.links.signal(message);
      case 'spectator-update':
        return this.#options.onspectatorupdate?.(message.update);
      case 'ended':
        // A spectator is in no generation, so its membership knows of no run.
        if (this.#isSpectator) return this.#options.onended(message.outcome, message.message, message.run);
        return this.#dispatch(message);
      case 'prepare':
      case 'sync':
      case 'go':
      case 'pause':
        return this.#dispatch(message);
      case 'suspended':
        this.#options.onsuspended?.(message.message);
        return this.#dispatch(message);
      case 'refused':
        return this.#onRefused(message);
      default:
        message satisfies never;
    }
  }

  #onAdmitted(message: Extract<ServerMessage, { type: 'admitted' }>): void {
    this.#admission = message;
    this.#iceServers = message.iceServers;
    this.#reconnection.succeed();
    this.#client?.startHeartbeat(message.heartbeatMs);
    this.#dispatch({ type: 'admitted', member: message.member });
    this.#options.onadmitted(message);
  }

  #onCredentials({ token, hostKey }: Extract<ServerMessage, { type: 'credentials' }>): void {
    if (this.#admission === null) return;
    this.#admission = { ...this.#admission, token, hostKey };
    if (hostKey !== null) this.#options.onhostkey?.(this.#admission.room, hostKey);
  }

  #onRefused({ code, message }: Extract<ServerMessage, { type: 'refused' }>): void {
    const RefusedError = code === 'removed' ? RemovedError : SignalingError;
    const error = new RefusedError(message, { room: this.#admission?.room });
    if (code === 'not-host' || code === 'not-now') return this.#options.onrefused(error);
    if (!isPassing(code, { isAdmitted: this.#admission !== null, isServerLost: this.#reconnection.isLost }))
      return this.#fatal(error);
    // Its place is gone: as somebody new, then.
    if (code === 'not-member' && this.#admission !== null) this.#admission = { ...this.#admission, token: '' };
    this.#onServerLost(error);
  }

  /** The server is gone, or has closed this connection: tries to come back. */
  #onServerLost(error: Error): void {
    if (this.#isOver || (this.#client === null && this.#reconnection.isLost)) return;
    this.#client?.close();
    this.#client = null;
    // A second `create` might open a second room.
    if (this.#admission === null && this.#options.hello.type === 'create') return this.#fatal(error);
    this.#reconnection.lose();
    this.#dispatch({ type: 'lost' });
    this.#reconnectLater(error);
  }

  #reconnectLater(error: Error): void {
    const { active } = this.#membership;
    const trains = active?.phase === 'RUNNING' || active?.phase === 'SYNCING';
    if (!trains && this.#reconnection.isOverdue) return this.#fatal(error);
    this.#reconnection.schedule(() => {
      this.#connect(this.#hello()).catch((again: unknown) => {
        if (!this.#isOver) this.#reconnectLater(asError(again));
      });
    });
  }

  /** The first message of a connection. */
  #hello(): Hello {
    if (this.#admission === null) return { ...this.#options.hello, browser: this.#browser };
    const { member, room, token, hostKey } = this.#admission;
    const { name, rank, isSpectator } = this.#options.hello;
    const who = { version: PROTOCOL_VERSION, name, rank, isSpectator, browser: this.#browser, room } as const;
    const key = hostKey === null ? {} : { hostKey };
    if (token === '' || this.#lastRoom === null) return { type: 'join', ...who, ...key };
    const reconnectState = reconnectStateOf(this.#membership, this.#lastRoom);
    return { type: 'reconnect', ...who, ...key, member, token, reconnectState };
  }

  #dispatch(event: MembershipEvent): void {
    if (this.#isOver) return;
    const { state, effects } = advance(this.#membership, event);
    this.#membership = state;
    for (const effect of effects) this.#carryOut(effect);
    this.#show();
  }

  #carryOut(effect: MembershipEffect): void {
    switch (effect.type) {
      case 'send':
        return this.#client?.send(effect.message);
      case 'link':
        void this.#link(effect.prepare);
        return;
      case 'drop':
        return this.#drop(effect.generation, new PeergradError(effect.reason));
      case 'enter': {
        const live = this.#live.get(effect.generation);
        this.#pool.retain(new Set(live?.members.map(({ member }) => member)));
        return this.#perform(effect.generation, 'entered', this.#options.enter);
      }
      case 'train':
        return this.#perform(effect.generation, 'trained', this.#options.train);
      case 'end':
        this.#pool.retain(new Set());
        this.#outcome = effect.message;
        return this.#options.onended(effect.outcome, effect.message, this.#membership.run);
      default:
        effect satisfies never;
    }
  }

  async #link({
    generation,
    run,
    members,
    job,
    relayed,
    separated,
  }: Extract<ServerMessage, { type: 'prepare' }>): Promise<void> {
    const { connectPeer, connectTab, transport = job.transport, clock } = this.#options;
    const rankOf = (id: string): number => members.findIndex(({ member }) => member === id);
    const rank = members.findIndex(({ member }) => member === this.#membership.member);
    const links = new GenerationLinks({
      ...{ room: this.#admission!.room, generation, rank, members, relayed, connectPeer, clock },
      connectTab: transport === 'auto' ? connectTab : null,
      ...{ iceServers: this.#iceServers, pool: this.#pool, server: () => this.#client },
      relayOnly: this.#admission!.iceTransportPolicy === 'relay',
    });
    const live: Live = { links, abort: new AbortController(), members, view: null };
    this.#live.set(generation, live);
    try {
      const opened = await links.open();
      live.view = {
        ...{ generation, run, rank, worldSize: members.length, members, job, ...opened },
        ...localRankOf(rank, members),
        separated: separated.map(([a, b]) => [rankOf(a), rankOf(b)]),
        signal: live.abort.signal,
      };
      this.#dispatch({ type: 'linked', generation });
    } catch (error) {
      this.#report(generation, error);
    }
  }

  #drop(generation: number, reason: Error): void {
    const live = this.#live.get(generation);
    this.#live.delete(generation);
    live?.abort.abort(reason);
    live?.links.close(reason);
  }

  /** Runs a task of a generation once those before it have settled. */
  #perform(
    generation: number,
    type: 'entered' | 'trained',
    task: (generation: Generation) => Promise<StateReport>,
  ): void {
    const perform = async (): Promise<void> => {
      const view = this.#live.get(generation)?.view;
      if (!view) return;
      this.#busy = generation;
      if (type === 'entered') this.#dispatch({ type: 'entering', generation });
      try {
        const { step, stateHash } = await task(view);
        this.#dispatch({ type, generation, step, stateHash });
        if (type === 'trained' && !this.#client?.isOpen) this.#farewell();
      } catch (error) {
        this.#report(generation, error);
      } finally {
        this.#busy = null;
      }
    };
    this.#work = this.#work.then(perform);
  }

  /** The run is done, and nobody is there to end it. */
  #farewell(): void {
    const { run } = this.#membership;
    this.#options.clock.after(FAREWELL_MS, () => {
      if (this.#client?.isOpen) return;
      const message = 'The run has finished here. The signaling server is away.';
      this.#dispatch({ type: 'ended', run, outcome: 'finished', message });
    });
  }

  /** What went wrong in a generation, for the server to decide what follows. */
  #report(generation: number, error: unknown): void {
    const live = this.#live.get(generation);
    if (!live) return;
    const { active } = this.#membership;
    // A finished rank ignores closing peers: they are finishing too.
    if (active?.generation === generation && active.phase === 'FINISHED') return;
    const failure = asError(error);
    // A fixed world that is broken stays so, and nobody is there to say what follows.
    if (this.#isFixed && !this.#client?.isOpen) return this.#fatal(failure);
    const isLinking = this.#membership.linking?.generation === generation;
    const { event, graceMs } = failureEventOf(failure, {
      generation,
      members: live.members,
      self: live.members.findIndex(({ member }) => member === this.#membership.member),
      isLinking,
      scopeOf: this.#options.scopeOf,
    });
    if (graceMs === 0) return this.#dispatch(event);
    this.#options.clock.after(graceMs, () => {
      if (this.#live.has(generation)) this.#dispatch(event);
    });
  }

  get #isSpectator(): boolean {
    return this.#options.hello.isSpectator ?? false;
  }

  get #isFixed(): boolean {
    return this.#lastRoom !== null && (this.#lastRoom.nodes === null || !isElastic(this.#lastRoom.job));
  }

  #onLinkLost(member: string, error: Error | null): void {
    for (const [generation, { members, links }] of this.#live) {
      const peer = members.findIndex((entry) => entry.member === member);
      if (!links.neighbours.includes(peer)) continue;
      const why = error === null ? 'A neighbour closed its link.' : error.message;
      this.#report(generation, new PeerGoneError(why, { generation, missing: [peer] }));
    }
  }

  #fatal(error: Error): void {
    if (this.#isOver) return;
    this.#options.onfatal(error);
    this.#end(error, error.message);
  }

  #end(reason: Error, detail: string): void {
    this.#isOver = true;
    this.#reconnection.cancel();
    this.#client?.close();
    for (const generation of [...this.#live.keys()]) this.#drop(generation, reason);
    this.#pool.retain(new Set());
    this.#options.onstate({ state: 'OFFLINE', generation: 0, detail, isServerAway: false, connecting: [] });
  }

  #show(): void {
    const isServerAway = !this.#membership.isConnected && this.#admission !== null;
    const status = {
      ...rankStateOf(this.#membership, { isServerAway, outcome: this.#outcome, isSpectator: this.#isSpectator }),
      isServerAway,
    };
    const shown = JSON.stringify(status);
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.#options.onstate(status);
  }
}
