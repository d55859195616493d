/** The order of a generation's members in the ring, from the known faults of their links. */
import type { RosterEntry } from '../../src/protocol/room.ts';
import { includesPair, isPair, needsRelay, neighbours, orderAround, BREAKS_TO_SEPARATE, type Order } from './edges.ts';
import { breaksOf, isProven, suspectsOf, unlinkedPairs } from './faults.ts';
import type { RoomState } from './state.ts';

/**
 * An order for these members that respects the known faults of their links. Only members with
 * enough evidence against them are left out; if no order avoids all broken links, the ring tries
 * them again.
 */
export function orderOf(state: RoomState, members: readonly RosterEntry[], separated = state.separated): Order {
  const { faults, hasRelay, unlinked } = state;
  const suspects = suspectsOf(faults);
  const doubtful = members.filter(({ member }) => suspects.has(member));
  // The next attempt, beside a rank that links to others, shows which end is at fault.
  const apart = doubtful.flatMap((a, i) =>
    doubtful.slice(i + 1).flatMap((b) => (a.browser === b.browser ? [] : [[a.member, b.member] as const])),
  );
  // With a relay they can stay neighbours. Untried pairs may not link either.
  const better = [...separated, ...(hasRelay ? [] : unlinkedPairs(faults)), ...apart];
  const breaks = breaksOf(faults);
  const order = orderAround(members, breaks, hasRelay, better);
  const culprits = members.length > 2 ? order.culprits.filter(({ member }) => isProven(faults, member)) : [];
  // Otherwise the broken links are tried again.
  const tolerated = new Map([...breaks].map(([key]) => [key, hasRelay ? BREAKS_TO_SEPARATE : 0]));
  const { ring, relayed } = order.culprits.length === 0 ? order : orderAround(members, tolerated, hasRelay, better);
  const all = new Map(relayed.map((pair) => [pair.join(' '), pair]));
  for (const [a, b] of hasRelay ? neighbours(ring) : []) {
    const pair: [string, string] = [a.member, b.member];
    // Tabs of one browser need no network.
    const isNeeded =
      a.browser !== b.browser && pair.some((member) => suspects.has(member) || needsRelay(unlinked, member));
    if (isNeeded || isPair(unlinked, a, b)) all.set(pair.join(' '), pair);
  }
  return { ring, relayed: [...all.values()].filter((pair) => !isRelayInVain(state, pair)), culprits };
}

/**
 * Whether a pair, or every relayed pair, could not link over the relay in the last generation: the
 * pair links directly next.
 */
function isRelayInVain({ relayed, faults, generation }: RoomState, pair: readonly [string, string]): boolean {
  const last = faults.filter((fault) => fault.kind === 'unlinked' && fault.generation === generation);
  const down = last.flatMap(({ by, about }) => (includesPair(relayed, [by, about]) ? [[by, about] as const] : []));
  const isAllDown = down.length > 0 && relayed.every((one) => includesPair(down, one));
  return isAllDown || includesPair(down, pair);
}
