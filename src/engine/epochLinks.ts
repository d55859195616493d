/**
 * The links of one epoch, as this rank makes them: to both ring neighbours at once, to any other rank when one of the two first
 * sends to it. What travels over them is the mesh's concern.
 */
import { Mesh } from '../collectives/mesh.ts';
import type { IceServer, RosterEntry, ServerMessage } from '../protocol/control.ts';
import type { Link } from '../transport/link.ts';
import type { Clock } from '../util/clock.ts';
import { PeerGoneError, SignalingError } from '../util/errors.ts';
import { Edge, type PeerConnector } from './linking.ts';
import type { SignalingClient } from './signaling.ts';

/** Links a rank opens at once on demand: each costs some ten messages, and the server bounds those. */
const MAX_DIALING = 4;

export interface EpochLinksOptions {
  room: string;
  epoch: number;
  rank: number;
  /** In ring order: index is rank. */
  members: readonly RosterEntry[];
  iceServers: readonly IceServer[];
  connectPeer: PeerConnector;
  /** Takes signals to the other ranks; what they answer comes by {@link EpochLinks.signal}. */
  server: Pick<SignalingClient, 'isOpen' | 'send'>;
  clock: Clock;
  /** A neighbour's link is gone, and no process group has taken it over that would notice. */
  onlost: (error: Error) => void;
}

export class EpochLinks {
  /** Ranks beside this one in the ring: two, one in a world of two, none in a world of one. */
  readonly neighbours: readonly number[];
  readonly #options: EpochLinksOptions;
  /** By rank. */
  readonly #edges = new Map<number, Edge>();
  /** Links that this rank is opening on demand. */
  readonly #dialing = new Set<Promise<void>>();
  #mesh: Mesh | null = null;

  constructor(options: EpochLinksOptions) {
    this.#options = options;
    const { rank, members } = options;
    const n = members.length;
    const beside = new Set([(rank - 1 + n) % n, (rank + 1) % n]);
    this.neighbours = [...beside].filter((peer) => peer !== rank);
  }

  /**
   * Links to the neighbours. Others follow on demand of the mesh.
   *
   * @throws (rejects) TimeoutError naming a neighbour that could not be reached, PeerGoneError after {@link close}.
   */
  async open(): Promise<{ mesh: Mesh; links: ReadonlyMap<number, Link> }> {
    const { rank, epoch, members } = this.#options;
    const opened = this.neighbours.map(async (peer) => [peer, await this.#link(peer)] as const);
    const links = new Map(await Promise.all(opened));
    const mesh = new Mesh({
      ...{ rank, worldSize: members.length, epoch, links },
      connect: (peer) => this.#dial(peer),
    });
    this.#mesh = mesh;
    return { mesh, links };
  }

  /** A signal of another rank's: for a link that this rank makes too, or the first of one that the other opens. */
  signal({ from, attempt, signal }: Omit<Extract<ServerMessage, { type: 'signal' }>, 'type' | 'epoch'>): void {
    const { rank, members } = this.#options;
    const peer = members.findIndex(({ member }) => member === from);
    if (peer < 0 || peer === rank) return;
    const isNew = !this.#edges.has(peer);
    const edge = this.#edgeTo(peer);
    edge.signal(attempt, signal);
    if (isNew) void this.#follow(peer, edge);
  }

  /** The epoch is over: ends the mesh's groups with `reason`, and closes all links. */
  close(reason: Error): void {
    // Closing hears no answer: whoever still waits for another rank is told now.
    this.#mesh?.end(reason);
    for (const edge of this.#edges.values()) edge.close();
  }

  #edgeTo(peerRank: number): Edge {
    const existing = this.#edges.get(peerRank);
    if (existing) return existing;
    const { room, epoch, rank, members, iceServers, connectPeer, server, clock } = this.#options;
    const [self, peer] = [members[rank]!.member, members[peerRank]!.member];
    const edge = new Edge({
      self: { room, epoch, member: self, rank },
      peer: { room, epoch, member: peer, rank: peerRank },
      ...{ iceServers, connect: connectPeer, clock },
      send: (attempt, signal) => server.send({ type: 'signal', epoch, to: peer, attempt, signal }),
    });
    this.#edges.set(peerRank, edge);
    return edge;
  }

  async #link(neighbour: number): Promise<Link> {
    const link = await this.#edgeTo(neighbour).link();
    // Until a process group takes the link over, its loss must not go unnoticed.
    link.onclose = (error) => {
      this.#options.onlost(error ?? new PeerGoneError('A neighbour closed its link before training began.'));
    };
    return link;
  }

  /** Opens a link on demand. */
  async #dial(peer: number): Promise<Link> {
    const { room, epoch, rank, server } = this.#options;
    if (!server.isOpen) {
      throw new SignalingError(
        `Rank ${rank} has no link to rank ${peer} yet, and the signaling server is away: it is needed to make one.`,
        { room, epoch, rank, missing: [peer] },
      );
    }
    while (this.#dialing.size >= MAX_DIALING) await Promise.race(this.#dialing);
    // The other end may have been first.
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

  /** Another rank opens a link to this one. Where that fails, it tells. */
  async #follow(peer: number, edge: Edge): Promise<void> {
    try {
      this.#mesh?.accept(peer, await edge.link(false));
    } catch {
      if (this.#edges.get(peer) === edge) this.#edges.delete(peer);
    }
  }
}
