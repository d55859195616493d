/** How ranks of a benchmark are linked: as the engine does it, but for the signaling server. */
import { EpochLinks } from '../../src/engine/epochLinks.ts';
import { LinkPool } from '../../src/engine/linkPool.ts';
import type { PeerConnector } from '../../src/engine/linking.ts';
import type { LinkSignal } from '../../src/protocol/control.ts';
import { systemClock } from '../../src/util/clock.ts';
import type { RankSetup } from './rank.ts';

/** There is one world, and it does not change. */
const EPOCH = 1;

export interface RankLinks {
  readonly links: EpochLinks;
  /** A signal of another rank has come. */
  hear(from: number, attempt: number, signal: LinkSignal): void;
}

/** @param tell takes a signal to another rank. */
export function linksOfRank(
  { rank, worldSize }: RankSetup,
  connectPeer: PeerConnector,
  tell: (to: number, attempt: number, signal: LinkSignal) => void,
): RankLinks {
  // Ordered as ranks are, since the lower id initiates.
  const members = Array.from({ length: worldSize }, (_, i) => `rank-${String(i).padStart(3, '0')}`);
  const links = new EpochLinks({
    ...{ room: 'bench', epoch: EPOCH, rank, connectPeer, connectTab: null, clock: systemClock },
    members: members.map((member) => ({ member, name: member, device: null, browser: 0, rank: null })),
    ...{ iceServers: [], pool: new LinkPool(() => {}), relayed: [], relayOnly: false },
    server: () => ({
      isOpen: true,
      send: (message) => {
        if (message.type === 'signal') tell(members.indexOf(message.to), message.attempt, message.signal);
      },
    }),
  });
  return {
    links,
    hear: (from, attempt, signal) => links.signal({ from: members[from]!, attempt, signal }),
  };
}
