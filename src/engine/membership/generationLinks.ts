/**
 * This rank's links in one generation. Links to both ring neighbours are opened first. Connections
 * of earlier generations that are still open are used again. A link to any other rank is opened
 * when one of the two ranks first sends to the other. The mesh defines which messages are sent over
 * the links.
 */
import { Mesh } from '../../collectives/mesh.ts';
import { leftNeighbourOf, rightNeighbourOf } from '../../collectives/plans/ringPlan.ts';
import type { IceServer, ServerForwarding, ServerMessage } from '../../protocol/control.ts';
import type { RosterEntry } from '../../protocol/room.ts';
import type { Link } from '../../transport/link.ts';
import type { LinkAcrossGenerations } from '../../transport/linkAcrossGenerations.ts';
import type { Clock } from '../../util/clock.ts';
import { createDebugLog } from '../../util/debugLog.ts';
import { createDeferred } from '../../util/deferred.ts';
import { asError, SignalingError, TimeoutError } from '../../util/errors.ts';
import { randomId } from './browserId.ts';
import type { LinkPool } from './linkPool.ts';
import { beginsLinkAttempt } from './linkAttemptTrack.ts';
import { GenerationLink, ON_DEMAND_TIMEOUT_FACTOR } from './generationLink.ts';
import type { PeerConnector, ServerConnector, TabConnector } from './generationLinkOptions.ts';
import type { SignalingClient } from './signalingClient.ts';

/**
 * The largest number of links that a rank opens on demand at the same time. Each link needs about
 * ten messages, and the server limits the rate of messages.
 */
const MAX_DIALING = 4;

const log = createDebugLog('links');

export interface GenerationLinksOptions {
  room: string;
  generation: number;
  rank: number;
  /** Members in ring order. The index of a member is its rank. */
  members: readonly RosterEntry[];
  iceServers: readonly IceServer[];
  /** `null` if the server forwards all frames between browsers. */
  connectPeer: PeerConnector | null;
  /**
   * Connects tabs of one browser directly. `null` if they are linked like tabs of different
   * browsers.
   */
  connectTab: TabConnector | null;
  /** `null` if the server forwards no frames. */
  connectServer: ServerConnector | null;
  /** How the server forwards frames; `null` if it forwards none. */
  serverLine: ServerForwarding | null;
  pool: LinkPool;
  /** Pairs of members that must connect over a TURN relay. */
  relayed: readonly (readonly [string, string])[];
  /** Pairs of members that have already needed the server. */
  served: readonly (readonly [string, string])[];
  relayOnly: boolean;
  /** Whether the run ends if a link breaks. */
  isFixed: boolean;
  /**
   * Returns the server, which forwards signals to other ranks; `null` while the server cannot be
   * reached. Pass signals from other ranks to {@link GenerationLinks.signal}.
   */
  server: () => Pick<SignalingClient, 'isOpen' | 'send'> | null;
  /**
   * Resolves with `true` if the server's latest pulses say that one of these members computes or
   * loads, and has not exceeded its time limit.
   */
  doesOneWork: (members: readonly string[]) => Promise<boolean>;
  clock: Clock;
}

export class GenerationLinks {
  /**
   * The ring neighbours of this rank: two in a world of at least three ranks, otherwise one or
   * none.
   */
  readonly neighbours: readonly number[];
  readonly #options: GenerationLinksOptions;
  /** The links to other ranks, open or being opened. The keys are ranks. */
  readonly #links = new Map<number, GenerationLink>();
  /** Links that this rank is opening on demand. */
  readonly #dialing = new Set<Promise<void>>();
  #mesh: Mesh | null = null;
  /** Resolves when the mesh exists. */
  readonly #opening = createDeferred();
  /** The reason why the generation has ended; `null` until then. */
  #over: Error | null = null;

  constructor(options: GenerationLinksOptions) {
    this.#options = options;
    const { rank, members } = options;
    const n = members.length;
    const beside = new Set([leftNeighbourOf(rank, n), rightNeighbourOf(rank, n)]);
    this.neighbours = [...beside].filter((peer) => peer !== rank);
  }

  /**
   * Opens the links to the neighbours. Other links are opened later: over connections that are
   * still open, or on demand.
   *
   * @throws (rejects) TimeoutError if neighbours could not be reached. The error names all
   *   neighbours that could not be reached. PeerGoneError after {@link close}.
   */
  async open(): Promise<{ mesh: Mesh; links: ReadonlyMap<number, Link> }> {
    const { rank, generation, members, serverLine } = this.#options;
    const opened = this.neighbours.map(async (peer) => [peer, await this.#linkTo(peer).link()] as const);
    const others = members.flatMap(({ member }, peer) => {
      const isNeighbour = peer === rank || this.neighbours.includes(peer);
      return isNeighbour || !this.#options.pool.has(member) ? [] : [peer];
    });
    for (const peer of others) void this.#follow(peer, (link) => link.reuse());
    const links = await this.#all(opened);
    const mesh = new Mesh({
      rank,
      worldSize: members.length,
      generation,
      links,
      serverLine,
      connect: (peer) => this.#dial(peer),
      // The id has 52 bits, so that a JSON number represents it exactly.
      newMessageId: () => Number.parseInt(randomId().slice(0, 13), 16),
    });
    this.#mesh = mesh;
    this.#opening.resolve();
    return { mesh, links };
  }

  /**
   * Resolves with the links to the neighbours once all attempts have ended. It does not stop at the
   * first failure, because the server needs the names of all neighbours that could not be reached.
   */
  async #all(opened: readonly Promise<readonly [number, Link]>[]): Promise<Map<number, Link>> {
    const settled = await Promise.allSettled(opened);
    const failures = settled.flatMap((result) => (result.status === 'rejected' ? [asError(result.reason)] : []));
    const [first, ...others] = failures;
    if (first === undefined) return new Map(await Promise.all(opened));
    if (!(first instanceof TimeoutError) || others.length === 0) throw first;
    const missing = failures.flatMap((error) => (error instanceof TimeoutError ? (error.context.missing ?? []) : []));
    throw new TimeoutError(failures.map(({ message }) => message).join(' '), { ...first.context, missing });
  }

  /**
   * Handles a signal of another rank. The signal belongs to a link that this rank is also opening,
   * or it is the first signal of a link that the other rank opens.
   */
  signal({ from, attempt, signal }: Omit<Extract<ServerMessage, { type: 'signal' }>, 'type' | 'generation'>): void {
    const { rank, members } = this.#options;
    const peer = members.findIndex(({ member }) => member === from);
    if (peer < 0 || peer === rank) return;
    const known = this.#links.get(peer);
    // Any other signal for an unknown link belongs to an attempt that has ended.
    const isFirst = beginsLinkAttempt(attempt, signal, { from, to: members[rank]!.member });
    if ((!known || known.hasFailed) && !isFirst) return;
    const link = this.#linkTo(peer);
    link.signal(attempt, signal);
    if (link !== known) void this.#follow(peer, () => link.link(false));
  }

  /** Ids of the neighbours to which this rank is linked through the server. */
  get servedNeighbours(): string[] {
    const served = this.neighbours.filter((peer) => this.#links.get(peer)?.isServed);
    return served.map((peer) => this.#options.members[peer]!.member);
  }

  /** Whether the link to a rank uses, or can use, a connection other than this one. */
  usesAnother(peer: number, connection: LinkAcrossGenerations): boolean {
    const used = this.#links.get(peer)?.connection ?? null;
    return used === null ? this.#options.pool.has(this.#options.members[peer]!.member) : used !== connection;
  }

  /** Ends the generation: aborts the mesh's groups with `reason` and closes all links. */
  close(reason: Error): void {
    const { rank, generation } = this.#options;
    log(() => `Rank ${rank}, generation ${generation}, closes ${this.#links.size} links: ${reason.message}`);
    // Waiting operations are aborted first, because a closed link delivers nothing more.
    this.#over = reason;
    this.#mesh?.end(reason);
    for (const link of this.#links.values()) link.close();
  }

  #linkTo(peerRank: number): GenerationLink {
    const existing = this.#links.get(peerRank);
    if (existing && !existing.hasFailed) return existing;
    const { room, generation, rank, members, iceServers, connectPeer, connectTab, connectServer } = this.#options;
    const { pool, relayed, served, isFixed, server, doesOneWork, clock } = this.#options;
    const [self, peer] = [members[rank]!.member, members[peerRank]!.member];
    const isOne = (pair: readonly string[]): boolean => pair.includes(self) && pair.includes(peer);
    const relayOnly = this.#options.relayOnly || relayed.some(isOne);
    const isSameBrowser = members[rank]!.browser === members[peerRank]!.browser;
    const link = new GenerationLink({
      self: { room, generation, member: self, rank },
      peer: { room, generation, member: peer, rank: peerRank },
      iceServers,
      connect: connectPeer,
      connectServer,
      pool,
      relayOnly,
      isServed: served.some(isOne),
      isFixed,
      clock,
      isDelayed: () => doesOneWork([self, peer]),
      connectTab: isSameBrowser && !relayOnly ? connectTab : null,
      send: (attempt, signal) => server()?.send({ type: 'signal', generation, to: peer, attempt, signal }),
    });
    this.#links.set(peerRank, link);
    return link;
  }

  /** Opens a link on demand. */
  async #dial(peer: number): Promise<Link> {
    const { room, generation, rank, server } = this.#options;
    if (!server()?.isOpen && !this.#linkTo(peer).canReuse) {
      throw new SignalingError(
        `Rank ${rank} has no link to rank ${peer} yet. The signaling server is needed to open a link, but it cannot be reached.`,
        { room, generation, rank, missing: [peer] },
      );
    }
    while (this.#dialing.size >= MAX_DIALING) await Promise.race(this.#dialing);
    if (this.#over) throw this.#over;
    // If the other rank has opened the link in the meantime, `link` resolves with that link.
    const dialed = this.#linkTo(peer).link(true, ON_DEMAND_TIMEOUT_FACTOR);
    const over = dialed.then(
      () => {},
      () => {},
    );
    this.#dialing.add(over);
    try {
      return await dialed;
    } finally {
      this.#dialing.delete(over);
    }
  }

  /**
   * Adds a link to the mesh. The link is opened by another rank, or uses a connection that is still
   * open.
   */
  async #follow(peer: number, open: (link: GenerationLink) => Promise<Link>): Promise<void> {
    try {
      const opened = await open(this.#linkTo(peer));
      await this.#opening.promise;
      this.#mesh?.accept(peer, opened);
    } catch {
      // The failure is ignored, because no rank waits for this link. A rank that needs it opens it
      // again.
    }
  }
}
