/**
 * This rank's links of one generation: to both ring neighbours, over every connection that is still
 * open, and to any other rank when one of the two first sends to it. The mesh defines what travels
 * over them.
 */
import { Mesh } from '../../collectives/mesh.ts';
import { leftOf, rightOf } from '../../collectives/plans/ringPlan.ts';
import type { IceServer, ServerMessage } from '../../protocol/control.ts';
import type { RosterEntry } from '../../protocol/room.ts';
import type { Link } from '../../transport/link.ts';
import type { Clock } from '../../util/clock.ts';
import { deferred } from '../../util/deferred.ts';
import { asError, SignalingError, TimeoutError } from '../../util/errors.ts';
import { randomId } from './browserId.ts';
import type { LinkPool } from './linkPool.ts';
import { Edge, type PeerConnector, type TabConnector } from './linkAttempt.ts';
import type { SignalingClient } from './signalingClient.ts';

/**
 * Links that a rank opens at once on demand: each costs some ten messages, and the server limits
 * messages.
 */
const MAX_DIALING = 4;

interface GenerationLinksOptions {
  room: string;
  generation: number;
  rank: number;
  /** In ring order: index is rank. */
  members: readonly RosterEntry[];
  iceServers: readonly IceServer[];
  connectPeer: PeerConnector;
  /** `null`: tabs of one browser are linked like all others. */
  connectTab: TabConnector | null;
  pool: LinkPool;
  /** Pairs of members that must connect over a relay. */
  relayed: readonly (readonly [string, string])[];
  relayOnly: boolean;
  /**
   * Sends signals to other ranks. Their answers arrive by {@link GenerationLinks.signal}. `null`:
   * the server is away.
   */
  server: () => Pick<SignalingClient, 'isOpen' | 'send'> | null;
  clock: Clock;
}

export class GenerationLinks {
  /** Ring neighbours of this rank: two; one in a world of two; none in a world of one. */
  readonly neighbours: readonly number[];
  readonly #options: GenerationLinksOptions;
  /** Links by rank. */
  readonly #edges = new Map<number, Edge>();
  /** Links that this rank is opening on demand. */
  readonly #dialing = new Set<Promise<void>>();
  #mesh: Mesh | null = null;
  /** Resolves when the mesh exists. */
  readonly #opening = deferred();
  /** Why the generation is over; `null` until then. */
  #over: Error | null = null;

  constructor(options: GenerationLinksOptions) {
    this.#options = options;
    const { rank, members } = options;
    const n = members.length;
    const beside = new Set([leftOf(rank, n), rightOf(rank, n)]);
    this.neighbours = [...beside].filter((peer) => peer !== rank);
  }

  /**
   * Opens the links to the neighbours. Links over open connections and on demand follow.
   *
   * @throws (rejects) TimeoutError that names all neighbours that could not be reached;
   *   PeerGoneError after {@link close}.
   */
  async open(): Promise<{ mesh: Mesh; links: ReadonlyMap<number, Link> }> {
    const { rank, generation, members } = this.#options;
    const opened = this.neighbours.map(async (peer) => [peer, await this.#edgeTo(peer).link()] as const);
    const others = members.flatMap(({ member }, peer) => {
      const isNeighbour = peer === rank || this.neighbours.includes(peer);
      return isNeighbour || this.#options.pool.get(member) === null ? [] : [peer];
    });
    for (const peer of others) void this.#follow(peer, (edge) => edge.reuse());
    const links = await this.#all(opened);
    const mesh = new Mesh({
      rank,
      worldSize: members.length,
      generation,
      links,
      connect: (peer) => this.#dial(peer),
      // 52 bits, which a JSON number represents exactly.
      newMessageId: () => Number.parseInt(randomId().slice(0, 13), 16),
    });
    this.#mesh = mesh;
    this.#opening.resolve();
    return { mesh, links };
  }

  /**
   * Resolves with the links to the neighbours once all attempts have settled: the server needs the
   * names of all that failed.
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
   * Handles a signal of another rank: for a link that this rank opens too, or the first signal of a
   * link that the other rank opens.
   */
  signal({ from, attempt, signal }: Omit<Extract<ServerMessage, { type: 'signal' }>, 'type' | 'generation'>): void {
    const { rank, members } = this.#options;
    const peer = members.findIndex(({ member }) => member === from);
    if (peer < 0 || peer === rank) return;
    const known = this.#edges.get(peer);
    // Only an offer or a port begins a link. Any other signal without an edge belongs to an attempt
    // that is over.
    if ((!known || known.hasFailed) && signal.type !== 'offer' && signal.type !== 'port') return;
    const edge = this.#edgeTo(peer);
    edge.signal(attempt, signal);
    if (edge !== known) void this.#follow(peer, () => edge.link(false));
  }

  /** The generation is over: aborts the mesh's groups with `reason` and closes all links. */
  close(reason: Error): void {
    // A closed link delivers nothing more, so waiting operations are aborted first.
    this.#over = reason;
    this.#mesh?.end(reason);
    for (const edge of this.#edges.values()) edge.close();
  }

  #edgeTo(peerRank: number): Edge {
    const existing = this.#edges.get(peerRank);
    if (existing && !existing.hasFailed) return existing;
    const { room, generation, rank, members, iceServers, connectPeer, connectTab, pool, server, clock } = this.#options;
    const [self, peer] = [members[rank]!.member, members[peerRank]!.member];
    const relayOnly =
      this.#options.relayOnly || this.#options.relayed.some((pair) => pair.includes(self) && pair.includes(peer));
    const isSameBrowser = members[rank]!.browser === members[peerRank]!.browser;
    const edge = new Edge({
      self: { room, generation, member: self, rank },
      peer: { room, generation, member: peer, rank: peerRank },
      iceServers,
      connect: connectPeer,
      pool,
      relayOnly,
      clock,
      connectTab: isSameBrowser && !relayOnly ? connectTab : null,
      send: (attempt, signal) => server()?.send({ type: 'signal', generation, to: peer, attempt, signal }),
    });
    this.#edges.set(peerRank, edge);
    return edge;
  }

  /** Opens a link on demand. */
  async #dial(peer: number): Promise<Link> {
    const { room, generation, rank, server } = this.#options;
    if (!server()?.isOpen && !this.#edgeTo(peer).canReuse) {
      throw new SignalingError(
        `Rank ${rank} has no link to rank ${peer} yet, and the signaling server, which is needed to open one, is away.`,
        { room, generation, rank, missing: [peer] },
      );
    }
    while (this.#dialing.size >= MAX_DIALING) await Promise.race(this.#dialing);
    if (this.#over) throw this.#over;
    // The other end may have opened the link first.
    const dialed = this.#edgeTo(peer).link(true);
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

  /** Adopts a link that another rank opens, or that was open before. */
  async #follow(peer: number, link: (edge: Edge) => Promise<Link>): Promise<void> {
    try {
      const opened = await link(this.#edgeTo(peer));
      await this.#opening.promise;
      this.#mesh?.accept(peer, opened);
    } catch {
      // No rank waits for this link. A rank that needs it opens it.
    }
  }
}
