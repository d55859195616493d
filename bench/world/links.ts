/**
 * Links between the ranks of a benchmark, like those of the engine. Signals do not travel through
 * the signaling server.
 */
import { GenerationLinks } from '../../src/engine/membership/generationLinks.ts';
import { LinkPool } from '../../src/engine/membership/linkPool.ts';
import type { PeerConnector, TabConnector } from '../../src/engine/membership/generationLinkOptions.ts';
import type { LinkSignal } from '../../src/protocol/linkSignal.ts';
import type { Link } from '../../src/transport/link.ts';
import { connectThroughServer } from '../../src/transport/serverLink.ts';
import { systemClock } from '../../src/util/clock.ts';
import type { RankSetup, WorkerRank } from './rank.ts';

/**
 * Generation of the process group. There is only one, because the world does not change. It is also
 * the first generation of a room.
 */
const GENERATION = 1;
/**
 * Generation of frames that a benchmark sends outside of the process group. It is later than that
 * of the group, so that frames are not confused.
 */
export const LINK_GENERATION = 2;

export interface RankLinks {
  readonly links: GenerationLinks;
  readonly spareLinkTo: WorkerRank['spareLinkTo'];
  /** Handles a signal of another rank. */
  receiveSignal(from: number, attempt: number, signal: LinkSignal): void;
}

/** @param sendSignal sends a signal to another rank. */
export function linksOfRank(
  { rank, worldSize, transport, served, iceServers, relayOnly }: RankSetup,
  connectPeer: PeerConnector,
  connectTab: TabConnector,
  sendSignal: (to: number, attempt: number, signal: LinkSignal) => void,
): RankLinks {
  // The ids have the order of ranks, because the member with the lower id starts a connection.
  const members = served?.members ?? Array.from({ length: worldSize }, (_, i) => `rank-${String(i).padStart(3, '0')}`);
  const pool = new LinkPool(() => {});
  const spares = new Map<number, Link>();
  const links = new GenerationLinks({
    room: served?.room ?? 'bench',
    generation: GENERATION,
    rank,
    connectPeer: served === null ? connectPeer : null,
    clock: systemClock,
    connectTab: transport === 'auto' ? connectTab : null,
    members: members.map((member) => ({ member, name: member, device: null, browser: 0, rank: null })),
    iceServers,
    pool,
    connectServer:
      served &&
      ((attempt) => connectThroughServer({ ...attempt, ...served, openSocket: (url) => new WebSocket(url), crypto })),
    relayed: [],
    served: [],
    serverLine: null,
    relayOnly,
    isFixed: false,
    doesOneWork: () => Promise.resolve(false),
    server: () => ({
      isOpen: true,
      send: (message) => {
        if (message.type === 'signal') sendSignal(members.indexOf(message.to), message.attempt, message.signal);
      },
    }),
  });
  return {
    links,
    spareLinkTo(peer) {
      const link = spares.get(peer) ?? pool.get(members[peer]!)!.view(LINK_GENERATION);
      spares.set(peer, link);
      return link;
    },
    receiveSignal: (from, attempt, signal) => links.signal({ from: members[from]!, attempt, signal }),
  };
}
