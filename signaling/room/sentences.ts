/** Builds sentences about ranks for messages to users. */
import type { RosterEntry } from '../../src/protocol/room.ts';
import { SERVER_LINK_PATH } from '../../src/protocol/serverLink.ts';
import { listInWords, capitalizeFirst } from '../../src/util/text.ts';
import type { RoomState } from './state.ts';

/**
 * Maximum number of members that a sentence names before "and 5 others", because `ended.message`
 * may have at most 1200 characters.
 */
export const MAX_NAMED = 8;

/**
 * Returns a phrase such as "Rank 2 (Ada)", "Rank 1 (Bo) and rank 2 (Ada)" or "Rank 0 (..), ... and
 * 3 others".
 */
export function nameMembers(ring: readonly RosterEntry[], ranks: readonly number[]): string {
  const named = ranks.slice(0, MAX_NAMED).map((rank) => `rank ${rank} (${ring[rank]?.name})`);
  const others = ranks.length - named.length;
  if (others > 0) named.push(others === 1 ? '1 other' : `${others} others`);
  return capitalizeFirst(listInWords(named));
}

/** Returns the most likely causes of failed connections, with advice. */
export function networkAdvice({
  hasRelay,
  hasServerLinks,
  servesAll,
}: Pick<RoomState, 'hasRelay' | 'hasServerLinks' | 'servesAll'>): string {
  const check = `check that proxies and firewalls let WebSockets at ${SERVER_LINK_PATH} through`;
  if (servesAll) {
    return `All links go through the server (--server-links only): ${check}, or start the server with --server-links on.`;
  }
  const causes =
    'the Wi-Fi isolates its devices from each other (client isolation, usual in schools and guest networks), or a VPN or firewall blocks the connection';
  const relay = hasRelay
    ? 'The TURN relay of this server did not help: check that it runs and that its ports are open.'
    : 'This server has no TURN relay (--turn). A relay would avoid this problem.';
  const remedy = 'links through the server (--server-links on)';
  const other = hasRelay ? `Try ${remedy}.` : `So would ${remedy}.`;
  const links = hasServerLinks ? `Links through the server did not help: ${check}.` : other;
  return `Most likely, ${causes}. ${relay} ${links} Turn off client isolation, or use another network, for example a cable or a phone's hotspot.`;
}
