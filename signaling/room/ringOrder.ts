/**
 * Determines the order of a generation's members in the ring from the known faults of their links.
 */
import type { RosterEntry } from '../../src/protocol/room.ts';
import {
  includesPair,
  isPair,
  needsRelay,
  neighbours,
  orderAround,
  BREAKS_TO_SEPARATE,
  type Order,
  type Pairs,
} from './edges.ts';
import { testOrder } from './networks.ts';
import { breaksOf, isProven, suspectsOf, unlinkedPairs } from './faults.ts';
import { countUnlinked, groupedOrder, isServerOnly, reachOf, upgradesOf } from './servedPairs.ts';
import { trainsOn, type RoomState } from './state.ts';

export interface RoutedOrder extends Order {
  /** Neighbours that begin with the server, because the relay did not help them. */
  served: [string, string][];
}

/**
 * Returns an order of these members that avoids links with known faults. Members are left out only
 * if there is enough evidence against them. If no order avoids all broken links, the ring tries
 * these links again.
 */
export function orderOf(state: RoomState, members: readonly RosterEntry[], separated = state.separated): RoutedOrder {
  const { faults, hasRelay, hasServerLinks, unlinked, phase } = state;
  const suspects = suspectsOf(faults);
  const suspected = members.filter(({ member }) => suspects.has(member));
  // With links through the server, only a failure to link points to separate networks.
  const hasFailedToLink = phase === 'LINKING' && faults.some(({ kind }) => kind === 'unlinked');
  const test = hasRelay || (hasServerLinks && !hasFailedToLink) ? null : testOrder(state, members);
  // If all ranks wait for the next generation, they keep the order whose pairs are known best.
  const known = test === null && trainsOn(state, members) ? serverOrder(state, members) : null;
  // Two suspects should not be neighbours. If each is next to a rank that links to others, the next
  // attempt shows which of them is at fault.
  const apart = suspected.flatMap((a, i) =>
    suspected.slice(i + 1).flatMap((b) => (a.browser === b.browser ? [] : [[a.member, b.member] as const])),
  );
  // With a relay, a pair that failed to link can stay neighbours. Without a relay, such a pair is
  // separated if possible. The separation is not required, because pairs that were not tried yet
  // may fail to link, too.
  const better = [...separated, ...(hasRelay ? [] : unlinkedPairs(faults)), ...apart, ...(known?.unlinked ?? [])];
  const present = test ?? known?.order ?? members;
  const breaks = breaksOf(faults);
  const order = orderAround(present, breaks, hasRelay, better);
  const culprits = members.length > 2 ? order.culprits.filter(({ member }) => isProven(faults, member)) : [];
  // If no order avoids all broken links, the ring tries them again, over the relay if there is one.
  const tolerated = new Map([...breaks].map(([key]) => [key, hasRelay ? BREAKS_TO_SEPARATE : 0]));
  const { ring, relayed } = order.culprits.length === 0 ? order : orderAround(present, tolerated, hasRelay, better);
  const all = new Map(relayed.map((pair) => [pair.join(' '), pair]));
  for (const [a, b] of hasRelay ? neighbours(ring) : []) {
    const pair: [string, string] = [a.member, b.member];
    // Tabs of one browser need no network to reach each other.
    const isNeeded =
      a.browser !== b.browser && pair.some((member) => suspects.has(member) || needsRelay(unlinked, member));
    if (isNeeded || isPair(unlinked, a, b)) all.set(pair.join(' '), pair);
  }
  const inVain = [...all.values()].filter((pair) => isRelayInVain(state, pair));
  return {
    ring,
    relayed: [...all.values()].filter((pair) => !inVain.includes(pair)),
    served: hasServerLinks ? inVain : [],
    culprits,
  };
}

/**
 * Returns an order of `members` with few links through the server, and all pairs that are expected
 * to need the server. The order is the present one unless another one is better.
 */
function serverOrder(
  state: RoomState,
  members: readonly RosterEntry[],
): { order: readonly RosterEntry[]; unlinked: Pairs } | null {
  if (!isServerOnly(state) || state.unlinked.length === 0) return null;
  const reach = reachOf(state, members);
  const grouped = groupedOrder(reach);
  const isBetter = countUnlinked(reach, grouped) < countUnlinked(reach, members);
  const unlinked = members.flatMap((a, i) =>
    members.slice(i + 1).flatMap((b) => (reach.areUnlinked(a, b) ? [[a.member, b.member] as const] : [])),
  );
  return { order: isBetter ? grouped : members, unlinked };
}

/**
 * Whether an order of the ring is expected to have fewer links through the server than the present
 * ring has.
 */
export function hasBetterOrder(state: RoomState): boolean {
  const needed = state.served.length - upgradesOf(state).length;
  if (!isServerOnly(state) || needed === 0) return false;
  const { ring, culprits } = orderOf(state, state.ring);
  return culprits.length === 0 && countUnlinked(reachOf(state, ring), ring) < needed;
}

/**
 * Whether the relay did not help: this pair or all relayed pairs either linked through the server
 * instead, or failed to link over the relay in the last generation. The pair then links directly or
 * through the server next time.
 */
export function isRelayInVain(
  { relayed, unrelayed, faults, generation }: RoomState,
  pair: readonly [string, string],
): boolean {
  const last = faults.filter((fault) => fault.kind === 'unlinked' && fault.generation === generation);
  const down = last.flatMap(({ by, about }) => (includesPair(relayed, [by, about]) ? [[by, about] as const] : []));
  const failed = [...down, ...unrelayed];
  const isAllDown = relayed.length > 0 && relayed.every((one) => includesPair(failed, one));
  return isAllDown || includesPair(failed, pair);
}
