/** The order of a generation's members in the ring, after what is known of their links. */
import type { RosterEntry } from '../../src/protocol/control.ts';
import { isPair, needsRelay, neighbours, orderAround, BREAKS_TO_SEPARATE, type Order } from './edges.ts';
import { breaksOf, isProven, suspectsOf, unlinkedPairs } from './faults.ts';
import type { RoomState } from './state.ts';

/**
 * An order for these members, after what is known of their links. Only members against whom enough
 * is proven have to go; where there is no order without a broken link, the ring tries it again.
 */
export function orderOf(state: RoomState, members: readonly RosterEntry[], parted = state.parted): Order {
  const { faults, hasRelay, unlinked } = state;
  const suspects = suspectsOf(faults);
  const doubtful = members.filter(({ member }) => suspects.has(member));
  // Beside a rank that others can reach it shows whose fault it was.
  const apart = doubtful.flatMap((a, i) =>
    doubtful.slice(i + 1).flatMap((b) => (a.browser === b.browser ? [] : [[a.member, b.member] as const])),
  );
  // A relay connects them where they are. Pairs that nobody has tried may not link either.
  const better = [...parted, ...(hasRelay ? [] : unlinkedPairs(faults)), ...apart];
  const breaks = breaksOf(faults);
  const order = orderAround(members, breaks, hasRelay, better);
  const culprits = members.length > 2 ? order.culprits.filter(({ member }) => isProven(faults, member)) : [];
  // Else its broken links are tried as they are.
  const bearable = new Map([...breaks].map(([key]) => [key, hasRelay ? BREAKS_TO_SEPARATE : 0]));
  const { ring, relayed } = order.culprits.length === 0 ? order : orderAround(members, bearable, hasRelay, better);
  const all = new Map(relayed.map((pair) => [pair.join(' '), pair]));
  for (const [a, b] of hasRelay ? neighbours(ring) : []) {
    const pair: [string, string] = [a.member, b.member];
    // Tabs of one browser need no network.
    const isNeeded =
      a.browser !== b.browser && pair.some((member) => suspects.has(member) || needsRelay(unlinked, member));
    if (isNeeded || isPair(unlinked, a, b)) all.set(pair.join(' '), pair);
  }
  return { ring, relayed: [...all.values()], culprits };
}
