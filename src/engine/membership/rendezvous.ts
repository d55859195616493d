/**
 * Follows the signaling server through a member's life: admission, links to the neighbours of a
 * generation, synchronization, training, and then the next generation. `membership.ts` decides what
 * to do, as a pure function. This class executes the effects that it returns, and calls `enter` and
 * `train` for each generation.
 */
import type { ServerMessage } from '../../protocol/control.ts';
import type { RosterEntry } from '../../protocol/room.ts';
import { isPulseWorking } from '../../util/activity.ts';
import { isElasticJob, type TransportName } from '../../spec/job.ts';
import { localRankOf } from '../../protocol/seating.ts';
import type { LinkAcrossGenerations } from '../../transport/linkAcrossGenerations.ts';
import { createDebugLog } from '../../util/debugLog.ts';
import { asError, PeerGoneError, PeergradError } from '../../util/errors.ts';
import { failureEventOf } from './failureEvent.ts';
import { StateFeeds } from './feeds.ts';
import { activityOfRanks, type Generation } from './generation.ts';
import type { ServerConnector } from './generationLinkOptions.ts';
import { GenerationLinks, type GenerationLinksOptions } from './generationLinks.ts';
import { LinkPool, type KeptConnection } from './linkPool.ts';
import {
  nextMembership,
  describeMembershipStep,
  INITIAL_MEMBERSHIP,
  reconnectStateOf,
  type MembershipEffect,
  type MembershipEvent,
  type MembershipState,
  type RankStateReport,
} from './membership.ts';
import { rankStateOf } from './rankState.ts';
import { ReadyAnnouncer, type ReadyRank } from './readyAnnouncer.ts';
import type { ClientRequest, RendezvousOptions } from './rendezvousOptions.ts';
import { ServerConnection, type ServerToMemberMessage } from './serverConnection.ts';

/**
 * Milliseconds for which links stay open after a run that finished without the server. A slower
 * neighbour may still need the last frames.
 */
const FAREWELL_MS = 2_000;

/**
 * Deadline in milliseconds for an answer over a link through the server, if the machine may have
 * slept or changed its network. On a busy line, it is longer.
 */
const CHECK_MS = 5_000;

const log = createDebugLog('membership');

/** A generation whose links are open or being opened. */
interface Live {
  readonly links: GenerationLinks;
  readonly abort: AbortController;
  readonly members: RosterEntry[];
  /** The generation as `enter` and `train` receive it; `null` until its links are open. */
  view: Generation | null;
}

export class Rendezvous {
  readonly #options: RendezvousOptions;
  readonly #server: ServerConnection;
  #membership: MembershipState = INITIAL_MEMBERSHIP;
  #lastRoom: Extract<ServerMessage, { type: 'room' }> | null = null;
  readonly #live = new Map<number, Live>();
  readonly #pool: LinkPool;
  readonly #feeds: StateFeeds;
  readonly #announcer: ReadyAnnouncer;
  /** Settles after all calls of `enter` and `train`, which run one after the other. */
  #work: Promise<void> = Promise.resolve();
  /** The generation for which a call is in progress. */
  #busy: number | null = null;
  #shown = '';
  /** A sentence that tells how the latest run ended. */
  #outcome: string | null = null;
  #isOver = false;

  constructor(options: RendezvousOptions) {
    this.#options = options;
    options.activity.traffic = () => this.#pool.traffic;
    options.activity.awaits = () =>
      [...this.#live.values()].flatMap(({ view, members }) =>
        view ? view.mesh.awaited.map((rank) => members[rank]!.member) : [],
      );
    this.#server = new ServerConnection({
      ...options,
      onadmitted: (admission) => {
        const { member } = this.#membership;
        this.#dispatch({ type: 'admitted', member: admission.member });
        // The other members knew this tab under a different id, so its connections are of no use.
        if (member !== null && member !== admission.member) this.#pool.retain(new Set());
        this.#announcer.forget();
        this.#checkLinks();
        // Earlier reports may have been lost with the connection to the server.
        for (const [peer, kept] of this.#pool.allKept) this.#reportDirect(peer, kept);
        options.onadmitted(admission);
      },
      onfatal: (error) => this.#fatal(error),
      onmessage: (message) => this.#receive(message),
      onlost: () => this.#dispatch({ type: 'lost' }),
      isTraining: () => ['SYNCING', 'RUNNING'].includes(this.#membership.active?.phase ?? ''),
      reconnectState: () => this.#lastRoom && reconnectStateOf(this.#membership, this.#lastRoom),
    });
    this.#pool = new LinkPool((member, error, connection) => this.#onLinkLost(member, error, connection));
    this.#pool.watchKept((peer, kept) => this.#reportDirect(peer, kept));
    this.#feeds = new StateFeeds({
      openLinks: (feed, job) => this.#openLinks(feed, job.transport),
      run: async (feed) => options.feed?.(feed, this.#announcer.fed(feed)),
      onfailed: (other, rank) => {
        // Closing the connection tells the other end that the feed has failed. A connection to a
        // member of a current generation stays open, because that generation may use it.
        const isNeighbour = [...this.#live.values()].some(({ members }) =>
          members.some(({ member }) => member === other.member),
        );
        if (!isNeighbour) this.#pool.drop(other.member);
        if (rank === 1) this.#announcer.unfed(other.member);
      },
    });
    this.#announcer = new ReadyAnnouncer(options.clock, (message) => this.#server.send(message));
  }

  /** Connects and requests admission. Handlers report the result. */
  start(): Promise<void> {
    return this.#server.open();
  }

  send(message: ClientRequest): void {
    this.#server.send(message);
  }

  /** Announces that this rank is ready, or asks for a feeder first if the rank is behind. */
  announce(rank: ReadyRank): void {
    this.#announcer.announce(rank);
  }

  /** Announces this rank when it has no work left for generations that have ended. */
  announceWhenFreed(rank: () => ReadyRank): void {
    void this.#announcer.announceAfter(this.freed(), rank);
  }

  /**
   * Resolves when this rank has no work left for generations that have ended. Until then it cannot
   * take part in another generation.
   */
  async freed(): Promise<void> {
    if (this.#busy !== null && !this.#live.has(this.#busy)) await this.#work;
  }

  #reportDirect(peer: string, { decides }: KeptConnection): void {
    if (decides) this.#server.send({ type: 'direct', generation: this.#membership.generation, peer });
  }

  /** Call this if the machine may have slept or changed its network. */
  wake(): void {
    this.#server.wake();
    this.#checkLinks();
  }

  /** Leaves the room. Idempotent. */
  leave(): void {
    if (this.#isOver) return;
    this.#server.send({ type: 'leave' });
    this.#end(new PeergradError('This tab left the room.'), 'not connected');
  }

  /**
   * Call this after {@link leave}. Resolves when the server knows that this member has left, or
   * when the connection is closed.
   */
  async left(): Promise<void> {
    await this.#server.closed;
  }

  #receive(message: ServerToMemberMessage): void {
    switch (message.type) {
      case 'room':
        this.#lastRoom = message;
        this.#dispatch(message);
        this.#announcer.follow(message, this.#membership.member!);
        return this.#options.onroom(message);
      case 'signal':
        this.#feeds.signal(message);
        return this.#live.get(message.generation)?.links.signal(message);
      case 'feed':
        if (this.#lastRoom) this.#feeds.begin(message, this.#lastRoom.job, this.#membership.member!);
        return;
      case 'spectator-update':
        return this.#options.onspectatorupdate?.(message.update);
      case 'note':
        return this.#options.onnote?.(message);
      case 'ended':
        // A spectator is in no generation, so its membership does not know of the run.
        if (this.#isSpectator) return this.#options.onended(message);
        return this.#dispatch(message);
      case 'prepare':
      case 'sync':
      case 'go':
      case 'pause':
        return this.#dispatch(message);
      case 'suspended':
        this.#options.onsuspended?.(message);
        return this.#dispatch(message);
      default:
        message satisfies never;
    }
  }

  #dispatch(event: MembershipEvent): void {
    if (this.#isOver) return;
    const { state, effects } = nextMembership(this.#membership, event);
    log(() => describeMembershipStep(this.#membership, event, { state, effects }));
    this.#membership = state;
    for (const effect of effects) this.#carryOut(effect);
    this.#show();
  }

  #carryOut(effect: MembershipEffect): void {
    switch (effect.type) {
      case 'send':
        return this.#server.send(effect.message);
      case 'link':
        this.#feeds.giveWay((id) => effect.prepare.members.some(({ member }) => member === id));
        void this.#link(effect.prepare);
        return;
      case 'drop':
        return this.#drop(effect.generation, new PeergradError(effect.reason));
      case 'enter': {
        const live = this.#live.get(effect.generation);
        const members = new Set(live?.members.map(({ member }) => member));
        this.#feeds.end((member) => members.has(member), 'Both ranks are in one generation.');
        this.#pool.retain(new Set([...members, ...this.#feeds.members]));
        return this.#perform(effect.generation, 'entered', this.#options.enter);
      }
      case 'train':
        return this.#perform(effect.generation, 'trained', this.#options.train);
      case 'end':
        this.#feeds.end(() => true, effect.message);
        this.#announcer.forget();
        this.#pool.retain(new Set());
        this.#outcome = effect.message;
        return this.#options.onended(effect);
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
    served,
    separated,
  }: Extract<ServerMessage, { type: 'prepare' }>): Promise<void> {
    const rankOf = (id: string): number => members.findIndex(({ member }) => member === id);
    const rank = members.findIndex(({ member }) => member === this.#membership.member);
    const links = this.#openLinks({ generation, rank, members, relayed, served }, job.transport);
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
        activityOf: async (ranks) =>
          activityOfRanks(ranks, members, await this.#server.pulsesOf(ranks.map((one) => members[one]!.member))),
      };
      const neighbours = links.servedNeighbours;
      this.#dispatch({ type: 'linked', generation, ...(neighbours.length > 0 && { served: neighbours }) });
    } catch (error) {
      this.#report(generation, error);
    }
  }

  #openLinks(
    one: Pick<GenerationLinksOptions, 'generation' | 'rank' | 'members' | 'relayed' | 'served'>,
    jobTransport: TransportName,
  ): GenerationLinks {
    const { connectPeer, connectTab, transport = jobTransport, clock } = this.#options;
    const { room, serverLinks, iceTransportPolicy } = this.#server.admission!;
    const connectServer = this.#serverConnector();
    return new GenerationLinks({
      ...one,
      room,
      connectPeer: serverLinks === 'only' && connectServer !== null ? null : connectPeer,
      connectServer,
      clock,
      connectTab: transport === 'auto' ? connectTab : null,
      iceServers: this.#server.iceServers,
      serverLine: this.#lastRoom?.served ?? null,
      pool: this.#pool,
      server: () => this.#server,
      doesOneWork: (some) => this.#doesOneWork(some),
      relayOnly: iceTransportPolicy === 'relay',
      isFixed: this.#isFixed,
    });
  }

  async #doesOneWork(members: readonly string[]): Promise<boolean> {
    return [...(await this.#server.pulsesOf(members)).values()].some(isPulseWorking);
  }

  /**
   * Closes links through the server that do not work any more. While the server cannot be reached,
   * the network may not be back yet; when it is, this is called again.
   */
  #checkLinks(): void {
    const ms = this.#options.activity.answerMs(CHECK_MS);
    const { member } = this.#membership;
    void this.#pool.check(ms, async (other) => this.#server.isAway || this.#doesOneWork([member!, other]));
  }

  /** Returns `null` if the server, or this page, does not link ranks through the server. */
  #serverConnector(): ServerConnector | null {
    const { connectServer, server } = this.#options;
    if (connectServer === undefined || this.#server.admission!.serverLinks === 'off') return null;
    return (attempt) => {
      const { room, token } = this.#server.admission!;
      return connectServer({ ...attempt, server, room, token });
    };
  }

  #drop(generation: number, reason: Error): void {
    const live = this.#live.get(generation);
    this.#live.delete(generation);
    live?.abort.abort(reason);
    live?.links.close(reason);
  }

  /** Runs a task of a generation after all earlier tasks have settled. */
  #perform(
    generation: number,
    type: 'entered' | 'trained',
    task: (generation: Generation) => Promise<RankStateReport>,
  ): void {
    const perform = async (): Promise<void> => {
      if (type === 'entered') await this.#feeds.over();
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

  /** Ends a run that has finished while the server was unreachable. */
  #farewell(): void {
    const { run } = this.#membership;
    this.#options.clock.after(FAREWELL_MS, () => {
      if (this.#server.isOpen) return;
      const message = 'The run has finished here, but the signaling server cannot be reached.';
      this.#dispatch({ type: 'ended', run, outcome: 'finished', message });
    });
  }

  /** Reports an error in a generation to the server, which then decides what to do. */
  #report(generation: number, error: unknown): void {
    const live = this.#live.get(generation);
    if (!live) return;
    const { active } = this.#membership;
    // A rank that has finished ignores closed links, because its peers are finishing, too.
    if (active?.generation === generation && active.phase === 'FINISHED') return;
    const failure = asError(error);
    // A fixed world cannot continue after a failure. Without a server, the rank must end the run
    // itself.
    if (this.#isFixed && !this.#server.isOpen) return this.#fatal(failure);
    const isLinking = this.#membership.linking?.generation === generation;
    const { event, graceMs } = failureEventOf(failure, {
      generation,
      members: live.members,
      self: live.members.findIndex(({ member }) => member === this.#membership.member),
      isLinking,
      scopeOf: this.#options.scopeOf,
    });
    log(
      () =>
        `Member ${this.#membership.member}, generation ${generation}: ${failure.message} It reports ${event.type} in ${graceMs} ms.`,
    );
    if (graceMs === 0) return this.#dispatch(event);
    this.#options.clock.after(graceMs, () => {
      if (this.#live.has(generation)) this.#dispatch(event);
    });
  }

  get #isSpectator(): boolean {
    return this.#options.hello.isSpectator ?? false;
  }

  get #isFixed(): boolean {
    return this.#lastRoom !== null && (this.#lastRoom.nodes === null || !isElasticJob(this.#lastRoom.job));
  }

  #onLinkLost(member: string, error: Error | null, connection: LinkAcrossGenerations): void {
    this.#feeds.lost(member, connection);
    log(() => `Member ${this.#membership.member} has lost the connection to ${member}: ${error?.message ?? 'closed'}`);
    for (const [generation, { members, links }] of this.#live) {
      const peer = members.findIndex((entry) => entry.member === member);
      if (!links.neighbours.includes(peer) || links.usesAnother(peer, connection)) continue;
      const why = error === null ? 'A neighbour has closed its link.' : error.message;
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
    this.#feeds.end(() => true, reason.message);
    this.#announcer.forget();
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
