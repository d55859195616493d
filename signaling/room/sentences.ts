/** How a room speaks of its ranks. */
import type { RosterEntry } from '../../src/protocol/room.ts';

/**
 * Members a sentence names before it says "and 5 others": `ended.message` holds 1200 characters.
 */
export const MAX_NAMED = 8;

/** "Rank 2 (Ada)", "Rank 1 (Bo) and rank 2 (Ada)", "Rank 0 (..), ... and 3 others". */
export function nameRanks(ring: readonly RosterEntry[], ranks: readonly number[]): string {
  const named = ranks.slice(0, MAX_NAMED).map((rank) => `rank ${rank} (${ring[rank]?.name})`);
  const others = ranks.length - named.length;
  if (others > 0) named.push(others === 1 ? '1 other' : `${others} others`);
  const last = named.pop() ?? 'nobody';
  const sentence = named.length > 0 ? `${named.join(', ')} and ${last}` : last;
  return sentence.charAt(0).toUpperCase() + sentence.slice(1);
}

/** Why tabs could not connect, most likely, and what to do about it. */
export function networkAdvice({ hasRelay }: { hasRelay: boolean }): string {
  const causes =
    'their Wi-Fi keeps its devices apart (client isolation, usual in schools and guest networks), or a VPN or firewall stands between them';
  const relay = hasRelay
    ? 'The TURN relay of this server was no help: check that it runs and that its ports are open.'
    : 'This server has no TURN relay (--turn), which would go around that.';
  return `Most likely ${causes}. ${relay} Turn client isolation off, or use another network: a cable, or a phone's hotspot.`;
}
