/**
 * A member's life as the signaling server orders it: admission, links to the neighbours of a
 * generation, synchronization, training, and the next generation. `membership.ts` decides, as a
 * pure function; this carries out its effects and passes each generation to `enter` and `train`.
 */
import type { ServerMessage } from '../../protocol/control.ts';
import type { RosterEntry } from '../../protocol/room.ts';
import { isElastic } from '../../spec/job.ts';
import { localRankOf } from '../../protocol/seating.ts';
import { asError, PeerGoneError, PeergradError } from '../../util/errors.ts';
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
import type { ClientRequest, RendezvousOptions } from './rendezvousOptions.ts';
import { ServerConnection, type Entry, type MemberMessage } from './serverConnection.ts';

/**
 * Milliseconds that links stay open after a run that no server ended: a slower neighbour may still
 * need the last frames.
 */
const FAREWELL_MS = 2_000;

/** A generation whose links are made or being made. */
interface Live {
  readonly links: GenerationLinks;
  readonly abort: AbortController;
  readonly members: RosterEntry[];
  /** The generation as `enter` and `train` receive it; `null` until its links are up. */
  view: Generation | null;
}

export class Rendezvous {
  readonly #options: RendezvousOptions;
  readonly #server: ServerConnection;
  #membership: MembershipState = OUTSIDE;
  #lastRoom: Extract<ServerMessage, { type: 'room' }> | null = null;
  readonly #live = new Map<number, Live>();
  readonly #pool: LinkPool;
  /** Calls of `enter` and `train`, one after the other. */
  #work: Promise<void> = Promise.resolve();
  /** The generation of the current call. */
  #busy: number | null = null;
  #shown = '';
  /** How the last run ended, in a sentence. */
  #outcome: string | null = null;
  #isOver = false;

  constructor(options: RendezvousOptions) {
    this.#options = options;
    this.#server = new ServerConnection({
      ...options,
      onentry: (entry) => this.#onEntry(entry),
      onmessage: (message) => this.#receive(message),
      onlost: () => this.#dispatch({ type: 'lost' }),
      isTraining: () => ['SYNCING', 'RUNNING'].includes(this.#membership.active?.phase ?? ''),
      reconnectState: () => this.#lastRoom && reconnectStateOf(this.#membership, this.#lastRoom),
    });
    this.#pool = new LinkPool((member, error) => this.#onLinkLost(member, error));
  }

  /** Connects and asks for admission. The handlers report what follows. */
  start(): Promise<void> {
    return this.#server.open();
  }

  send(message: ClientRequest): void {
    this.#server.send(message);
  }

  /**
   * Resolves once this rank's work in a generation that is over has settled: until then it cannot
   * take part in another.
   */
  async freed(): Promise<void> {
    if (this.#busy !== null && !this.#live.has(this.#busy)) await this.#work;
  }

  /** Leaves the room. Idempotent. */
  leave(): void {
    if (this.#isOver) return;
    this.#server.send({ type: 'leave' });
    this.#end(new PeergradError('This tab left the room.'), 'not connected');
  }

  /** Called after {@link leave}: resolves when the server knows, or is gone. */
  async left(): Promise<void> {
    await this.#server.closed;
  }

  #onEntry(entry: Entry): void {
    if (entry.type !== 'admitted') return this.#fatal(entry.error);
    this.#dispatch({ type: 'admitted', member: entry.admission.member });
    this.#options.onadmitted(entry.admission);
  }

  #receive(message: MemberMessage): void {
    switch (message.type) {
      case 'room':
        this.#lastRoom = message;
        return this.#options.onroom(message);
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
      default:
        message satisfies never;
    }
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
        return this.#server.send(effect.message);
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
      room: this.#server.admission!.room,
      generation,
      rank,
      members,
      relayed,
      connectPeer,
      clock,
      connectTab: transport === 'auto' ? connectTab : null,
      iceServers: this.#server.iceServers,
      pool: this.#pool,
      server: () => this.#server,
      relayOnly: this.#server.admission!.iceTransportPolicy === 'relay',
    });
    const live: Live = { links, abort: new AbortController(), members, view: null };
    this.#live.set(generation, live);
    try {
      const opened = await links.open();
      live.view = {
        ...opened,
        generation,
        run,
        rank,
        worldSize: members.length,
        members,
        job,
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
        if (type === 'trained' && !this.#server.isOpen) this.#farewell();
      } catch (error) {
        this.#report(generation, error);
      } finally {
        this.#busy = null;
      }
    };
    this.#work = this.#work.then(perform);
  }

  /** Ends a run that has finished while the server is away. */
  #farewell(): void {
    const { run } = this.#membership;
    this.#options.clock.after(FAREWELL_MS, () => {
      if (this.#server.isOpen) return;
      const message = 'The run has finished here. The signaling server is away.';
      this.#dispatch({ type: 'ended', run, outcome: 'finished', message });
    });
  }

  /** Reports an error in a generation to the server, which decides what follows. */
  #report(generation: number, error: unknown): void {
    const live = this.#live.get(generation);
    if (!live) return;
    const { active } = this.#membership;
    // A finished rank ignores closing peers: they are finishing too.
    if (active?.generation === generation && active.phase === 'FINISHED') return;
    const failure = asError(error);
    // A broken fixed world cannot continue, and there is no server to end the run.
    if (this.#isFixed && !this.#server.isOpen) return this.#fatal(failure);
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
    this.#server.close();
    for (const generation of [...this.#live.keys()]) this.#drop(generation, reason);
    this.#pool.retain(new Set());
    this.#options.onstate({ state: 'OFFLINE', generation: 0, detail, isServerAway: false, connecting: [] });
  }

  #show(): void {
    const isServerAway = this.#server.isAway;
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
