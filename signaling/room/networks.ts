/**
 * Recognizes a room whose members are in networks without a path between them. A ring shows this
 * slowly: however large two networks are, the ring crosses from one to the other at only two pairs.
 * So the next ring crosses as often as possible. If no pair of members from different networks can
 * link in that ring either, the members of the larger network train without the others.
 */
import type { RosterEntry } from '../../src/protocol/room.ts';
import { edgeKey, neighbours, type Pairs } from './edges.ts';
import type { Faults } from './records.ts';
import type { RoomState } from './state.ts';

/**
 * Two parts of a ring count as separate networks only if no pair across has linked, and at least
 * this number of pairs across failed to link. Fewer links may fail by chance, for example while a
 * machine is busy.
 */
const MIN_PAIRS = 4;
/**
 * If more than this share of the failed links is inside of networks, links fail by chance, and no
 * separate networks are assumed.
 */
const MAX_INSIDE = 0.1;
/** Number of LINKING phases in which pairs across two networks must have failed to link. */
const MIN_GENERATIONS = 2;

/**
 * Divides `members` into parts: two members of a pair in `linked`, or of one browser, are in the
 * same part.
 */
export function partsOf(members: readonly RosterEntry[], linked: Pairs): RosterEntry[][] {
  const partOf = new Map(members.map((one): [string, Set<RosterEntry>] => [one.member, new Set([one])]));
  const join = (a: string, b: string): void => {
    const [one, other] = [partOf.get(a), partOf.get(b)];
    if (one === undefined || other === undefined || one === other) return;
    for (const entry of other) partOf.set(entry.member, one.add(entry));
  };
  const tabs = new Map<NonNullable<RosterEntry['browser']>, string>();
  for (const { member, browser } of members) {
    if (browser === undefined) continue;
    join(tabs.get(browser) ?? member, member);
    tabs.set(browser, member);
  }
  for (const [a, b] of linked) join(a, b);
  return [...new Set(partOf.values())].map((part) => members.filter((one) => part.has(one)));
}

/**
 * Whether a part may be a network. If all of its members are tabs of one browser, this machine may
 * be at fault.
 */
export function isNetwork(part: readonly RosterEntry[]): boolean {
  return new Set(part.map(({ member, browser }) => browser ?? member)).size > 1;
}

/**
 * Returns an order of `members` whose links show whether the members are in separate networks;
 * `null` if nothing points to separate networks. If no link between two parts has failed, they may
 * be one network, so they become neighbours. If links between all parts have failed, the order
 * crosses between the parts as often as possible. But each member keeps a neighbour of its own
 * part, because the report of a member without any link is not credible.
 */
export function testOrder(
  { linked, faults, servesAll }: RoomState,
  members: readonly RosterEntry[],
): RosterEntry[] | null {
  if (servesAll) return null;
  const parts = partsOf(members, linked);
  const areAllAlone = members.length > 2 && parts.length === members.length && faults.length > 0;
  if (!areAllAlone && parts.filter(isNetwork).length < 2) return null;
  const merged: RosterEntry[][] = [];
  for (const part of parts) {
    const network = merged.find((one) => failedPairs(faults, one, part).length === 0);
    if (network) network.push(...part);
    else merged.push([...part]);
  }
  if (merged.length < parts.length) return merged.flat();
  const pieces = Math.max(1, Math.floor(Math.min(...parts.map(({ length }) => length)) / 2));
  return Array.from({ length: pieces }, (_, i) =>
    parts.flatMap((part) => {
      const bound = (piece: number): number => Math.floor((piece * part.length) / pieces);
      return part.slice(bound(i), bound(i + 1));
    }),
  ).flat();
}

/**
 * Returns the pairs that are known to have linked: the neighbours that linked in this generation,
 * and the pairs that were already known.
 */
export function linkedAfter({ ring, reports, complaints, linked }: RoomState, down: Pairs): Pairs {
  const failed = new Set(down.map((pair) => edgeKey(...pair)));
  // If a report says which links are missing, the reporter's other links are open.
  const knowsLinks = (member: string): boolean => reports.has(member) || complaints.get(member)?.type === 'broken';
  const open = neighbours(ring)
    .map(([a, b]) => [a.member, b.member] as const)
    .filter((pair) => !failed.has(edgeKey(...pair)) && pair.some(knowsLinks));
  return [...new Map([...linked, ...open].map((pair) => [edgeKey(...pair), pair])).values()];
}

/**
 * Returns the networks of the ring: first the one that trains, then those that it cannot reach. The
 * first is the largest one with the run's state. `null` if there is not enough evidence.
 */
export function separateNetworks({
  ring,
  membersWithState,
  linked,
  faults,
  servesAll,
}: RoomState): RosterEntry[][] | null {
  if (servesAll) return null;
  const parts = partsOf(ring, linked);
  // If no two machines have linked, it is unknown which is at fault, so each counts as a network.
  const networks = parts.some(isNetwork) ? parts.filter(isNetwork) : parts.filter(({ length }) => length > 1);
  const hasState = (network: readonly RosterEntry[]): boolean =>
    network.some(({ member }) => membersWithState.has(member));
  const able = networks.some(hasState) ? networks.filter(hasState) : networks;
  const most = Math.max(...able.map(({ length }) => length));
  const first = able.find(({ length }) => length === most);
  if (first === undefined || networks.length < 2) return null;
  // If many links fail inside of the networks, too, links fail by chance, so there is no evidence.
  const inside = parts.flatMap((part) => failedPairs(faults, part, part)).length;
  const all = failedPairs(faults, ring, ring).length;
  if (inside > all * MAX_INSIDE) return null;
  const others = networks.filter((network) => network !== first);
  const areUnreachable = others.every((network) => {
    const failed = failedPairs(faults, network, first);
    const pairs = new Set(failed.map(({ by, about }) => edgeKey(by, about))).size;
    return pairs >= MIN_PAIRS && new Set(failed.map(({ generation }) => generation)).size >= MIN_GENERATIONS;
  });
  return areUnreachable ? [first, ...others] : null;
}

/** Returns the reports that a member of `a` and a member of `b` could not link. */
function failedPairs(faults: Faults, a: readonly RosterEntry[], b: readonly RosterEntry[]): Faults {
  return faults.filter(
    ({ kind, by, about }) =>
      kind === 'unlinked' && ((isIn(a, by) && isIn(b, about)) || (isIn(b, by) && isIn(a, about))),
  );
}

function isIn(part: readonly RosterEntry[], id: string): boolean {
  return part.some(({ member }) => member === id);
}
