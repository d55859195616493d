/**
 * Determines the order of a generation's members in the ring from the known faults of their links.
 */
import type { RosterEntry } from '../../src/protocol/room.ts';
import { includesPair, isPair, needsRelay, neighbours, orderAround, BREAKS_TO_SEPARATE, type Order } from './edges.ts';
import { testOrder } from './networks.ts';
import { breaksOf, isProven, suspectsOf, unlinkedPairs } from './faults.ts';
import type { RoomState } from './state.ts';

/**
 * Returns an order of these members that avoids links with known faults. Members are left out only
 * if there is enough evidence against them. If no order avoids all broken links, the ring tries
 * these links again.
 */
export function orderOf(state: RoomState, members: readonly RosterEntry[], separated = state.separated): Order {
  const { faults, hasRelay, unlinked } = state;
  const suspects = suspectsOf(faults);
  const suspected = members.filter(({ member }) => suspects.has(member));
  const test = hasRelay ? null : testOrder(state, members);
  // Two suspects should not be neighbours. If each is next to a rank that links to others, the next
  // attempt shows which of them is at fault.
  const apart = suspected.flatMap((a, i) =>
    suspected.slice(i + 1).flatMap((b) => (a.browser === b.browser ? [] : [[a.member, b.member] as const])),
  );
  // With a relay, a pair that failed to link can stay neighbours. Without a relay, such a pair is
  // separated if possible. This is not required, because pairs that were not tried yet may fail to
  // link, too.
  const better = [...separated, ...(hasRelay ? [] : unlinkedPairs(faults)), ...apart];
  const breaks = breaksOf(faults);
  const order = orderAround(test ?? members, breaks, hasRelay, better);
  const culprits = members.length > 2 ? order.culprits.filter(({ member }) => isProven(faults, member)) : [];
  // If no order avoids all broken links, the ring tries them again, over the relay if there is one.
  const tolerated = new Map([...breaks].map(([key]) => [key, hasRelay ? BREAKS_TO_SEPARATE : 0]));
  const { ring, relayed } =
    order.culprits.length === 0 ? order : orderAround(test ?? members, tolerated, hasRelay, better);
  const all = new Map(relayed.map((pair) => [pair.join(' '), pair]));
  for (const [a, b] of hasRelay ? neighbours(ring) : []) {
    const pair: [string, string] = [a.member, b.member];
    // Tabs of one browser need no network to reach each other.
    const isNeeded =
      a.browser !== b.browser && pair.some((member) => suspects.has(member) || needsRelay(unlinked, member));
    if (isNeeded || isPair(unlinked, a, b)) all.set(pair.join(' '), pair);
  }
  return { ring, relayed: [...all.values()].filter((pair) => !isRelayInVain(state, pair)), culprits };
}

/**
 * Whether the relay did not help in the last generation: this pair failed to link over it, or all
 * relayed pairs failed. The pair then links directly next time.
 */
function isRelayInVain({ relayed, faults, generation }: RoomState, pair: readonly [string, string]): boolean {
  const last = faults.filter((fault) => fault.kind === 'unlinked' && fault.generation === generation);
  const down = last.flatMap(({ by, about }) => (includesPair(relayed, [by, about]) ? [[by, about] as const] : []));
  const isAllDown = down.length > 0 && relayed.every((one) => includesPair(down, one));
  return isAllDown || includesPair(down, pair);
}
