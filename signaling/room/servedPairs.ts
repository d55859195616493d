/**
 * Tracks which pairs of a room's members can link directly, on a network that lets only some of
 * them. Members report which of their links go through the server. Pairs that need the server begin
 * with it in later generations, and orders of the ring have few of them.
 */
import type { RosterEntry } from '../../src/protocol/room.ts';
import { MAX_WORLD_SIZE } from '../../src/protocol/scalars.ts';
import { assignRanks } from '../../src/protocol/seating.ts';
import { edgeKey, includesPair, needsRelay, neighbours, type Pairs } from './edges.ts';
import { breaksOf } from './faults.ts';
import { isNetwork, partsOf } from './networks.ts';
import { browserOf, nodesOf, readyMembers, type RoomState } from './state.ts';

/** Number of pairs that a room remembers for each of its members, on average. */
const PAIRS_PER_MEMBER = 8;
/**
 * A browser that linked to no other browser directly is expected to need the server for all its
 * links if this number of its pairs could not link directly.
 */
const ISOLATED_PAIRS = 8;

/**
 * Maximum number of generations of a run in which a pair changes from the server to a direct
 * connection. A pair that has to change again has no stable direct connection, so it stays with the
 * server.
 */
const MAX_UPGRADES = 2;

/** Whether the server is the only remedy of pairs that cannot link directly. */
export function isServerOnly({ hasServerLinks, hasRelay }: RoomState): boolean {
  return hasServerLinks && !hasRelay;
}

interface Reach {
  /**
   * Members that are expected to link to each other directly: each of them has linked to another
   * one of its part, or is in the same browser.
   */
  readonly parts: readonly (readonly RosterEntry[])[];
  /** Whether no pair of members of these two parts is expected to link directly. */
  readonly areApart: (part: number, other: number) => boolean;
  /** Whether these two members are expected to need the server for their link. */
  readonly areUnlinked: (a: RosterEntry, b: RosterEntry) => boolean;
}

/**
 * Returns what is known about the pairs of `members`. If a pair of two parts could not link
 * directly, all pairs of these parts are expected to fail, because none of them has linked.
 */
export function reachOf({ unlinked, direct }: RoomState, members: readonly RosterEntry[]): Reach {
  const parts = partsOf(members, direct);
  const partOf = new Map(parts.flatMap((part, i) => part.map(({ member }): [string, number] => [member, i])));
  const pairs = new Set(unlinked.map((pair) => edgeKey(...pair)));
  const partPairs = new Set<number>();
  const failures = parts.map(() => 0);
  for (const [a, b] of unlinked) {
    const [part, other] = [partOf.get(a), partOf.get(b)];
    // If one of the two has left, its network may have been at fault, not that of the other one.
    if (part === undefined || other === undefined) continue;
    failures[part]!++;
    failures[other]!++;
    partPairs.add(partKey(part, other));
  }
  const isIsolated = parts.map((part, i) => !isNetwork(part) && failures[i]! >= ISOLATED_PAIRS);
  const areApart = (part: number, other: number): boolean =>
    part !== other && (isIsolated[part]! || isIsolated[other]! || partPairs.has(partKey(part, other)));
  const areUnlinked = (a: RosterEntry, b: RosterEntry): boolean =>
    a.browser !== b.browser &&
    (pairs.has(edgeKey(a.member, b.member)) || areApart(partOf.get(a.member)!, partOf.get(b.member)!));
  return { parts, areApart, areUnlinked };
}

function partKey(part: number, other: number): number {
  return Math.min(part, other) * MAX_WORLD_SIZE + Math.max(part, other);
}

/**
 * Returns an order of all members in which parts that may link to each other directly are
 * neighbours. So a ring in this order shows which of them can.
 */
export function groupedOrder({ parts, areApart }: Reach): RosterEntry[] {
  const groups: number[][] = [];
  const sizeOf = (group: readonly number[]): number => group.reduce((sum, part) => sum + parts[part]!.length, 0);
  /** For each part, the groups that contain a part to which it has no direct link. */
  const closed = parts.map(() => new Set<number[]>());
  const rest = new Set(parts.keys());
  while (rest.size > 0) {
    // The part with the fewest groups left is next. This divides two networks without an error.
    const part = [...rest].reduce((best, one) => {
      const more = closed[one]!.size - closed[best]!.size || sizeOf([one]) - sizeOf([best]);
      return more > 0 ? one : best;
    });
    const [largest] = groups.filter((one) => !closed[part]!.has(one)).sort((a, b) => sizeOf(b) - sizeOf(a));
    const group = largest ?? [];
    if (largest === undefined) groups.push(group);
    group.push(part);
    rest.delete(part);
    for (const other of rest) if (areApart(part, other)) closed[other]!.add(group);
  }
  return groups.flatMap((group) => spread(group.map((part) => parts[part]!)));
}

/** Returns all members of these parts. The smaller parts are spread over the largest one. */
function spread(parts: readonly (readonly RosterEntry[])[]): readonly RosterEntry[] {
  const [largest, ...others] = [...parts].sort((a, b) => b.length - a.length);
  const bound = (i: number): number => Math.round((i * largest!.length) / others.length);
  if (others.length === 0) return largest!;
  return others.flatMap((part, i) => [...part, ...largest!.slice(bound(i), bound(i + 1))]);
}

/** Returns the number of neighbours that are expected to need the server. */
export function countUnlinked({ areUnlinked }: Reach, ring: readonly RosterEntry[]): number {
  return neighbours(ring).filter(([a, b]) => areUnlinked(a, b)).length;
}

/** Whether a link of these two members, outside of a ring, begins with the server. */
export function beginsServed(state: RoomState, a: RosterEntry, b: RosterEntry): boolean {
  if (!isServerOnly(state) || a.browser === b.browser) return false;
  return reachOf(state, state.members).areUnlinked(a, b) || [a, b].some(mayBeIsolated(state));
}

/**
 * Returns the number of pairs of neighbours that begin with the server if a run starts now. It is 0
 * during a run.
 */
export function expectedServed(state: RoomState): number {
  const { phase, job, unlinked, servesAll } = state;
  if (phase !== 'FORMING' || !(servesAll || (isServerOnly(state) && unlinked.length > 0))) return 0;
  const ring = assignRanks(readyMembers(state))
    .filter((one) => one !== null)
    .slice(0, nodesOf(state)?.max);
  if (servesAll)
    return neighbours(ring).filter(([a, b]) => a.browser !== b.browser || job.transport === 'webrtc').length;
  const { known, presumed } = servedOf({ ...state, ring, isTraining: false });
  return known.length + presumed.length;
}

/**
 * Returns a function that returns whether a member could not link to two others here, and linked to
 * none directly.
 */
function mayBeIsolated({ unlinked, direct, hidden }: RoomState): (entry: RosterEntry) => boolean {
  const present = unlinked.filter((pair) => pair.every((member) => hidden.has(member)));
  const linked = new Set(direct.flat());
  return ({ member }) => !linked.has(member) && needsRelay(present, member);
}

/**
 * Returns the pairs of neighbours that are known to need the server, and those of members that may
 * be isolated: while no rank trains, these begin with the server, too, because nobody then waits
 * for a direct link that will probably fail.
 */
function servedOf(state: RoomState): Record<'known' | 'presumed', [RosterEntry, RosterEntry][]> {
  const { ring, isTraining } = state;
  const { areUnlinked } = reachOf(state, ring);
  const foreign = neighbours(ring).filter(([a, b]) => a.browser !== b.browser);
  const isIsolated = isTraining ? () => false : mayBeIsolated(state);
  return {
    known: foreign.filter(([a, b]) => areUnlinked(a, b)),
    presumed: foreign.filter(([a, b]) => !areUnlinked(a, b) && (isIsolated(a) || isIsolated(b))),
  };
}

/** Returns the state in which the pairs of {@link servedOf} begin with the server. */
export function withServed(state: RoomState): RoomState {
  if (!isServerOnly(state)) return state;
  const { known, presumed } = servedOf(state);
  const [knownIds, presumedIds] = [known.map(idsOf), presumed.map(idsOf)];
  return {
    ...state,
    served: [...knownIds, ...presumedIds],
    unlinked: updated(state, state.unlinked, knownIds),
    unproven: updated(state, state.unproven, presumedIds),
  };
}

function idsOf([a, b]: readonly [RosterEntry, RosterEntry]): [string, string] {
  return [a.member, b.member];
}

/**
 * Records which links of a rank go through the server, as it reported. `served` contains the
 * members at their other ends. Tabs of one browser need no network, so their links show nothing.
 */
export function withRoutes(state: RoomState, member: string, served: readonly string[]): RoomState {
  if (!state.hasServerLinks) return state;
  const { relayed, unlinked, unrelayed, kept, unproven } = state;
  const own = neighbours(state.ring)
    .filter(([a, b]) => a.browser !== b.browser)
    .map(idsOf)
    .filter((pair) => pair.includes(member));
  const [through, others] = [true, false].map((isServed) =>
    own.filter((pair) => pair.some((one) => one !== member && served.includes(one)) === isServed),
  ) as [[string, string][], [string, string][]];
  // A link over the relay says nothing about a direct link of its ends.
  const opened = others.filter((pair) => !includesPair(relayed, pair));
  // A direct connection of these pairs has opened, only later than the link through the server.
  const needed = without(through, kept);
  // A pair that began with the server without evidence had little time to link directly, so it does
  // not count as failed. Later generations use its link again.
  const presumed = without([...state.served, ...unproven], unlinked);
  const failed = without(needed, presumed);
  return {
    ...state,
    served: [...without(state.served, own), ...through],
    unlinked: updated(state, without(unlinked, opened), failed),
    unproven: without(unproven, opened),
    unrelayed: updated(
      state,
      without(unrelayed, opened),
      through.filter((pair) => includesPair(relayed, pair)),
    ),
    direct: isServerOnly(state) ? updated(state, without(state.direct, needed), opened) : [],
  };
}

/**
 * Records that two ranks have a direct connection now. If they are linked through the server, they
 * change to the direct connection, unless an earlier one broke a short time ago or they have
 * already changed too often.
 */
export function withDirect(state: RoomState, pair: readonly [string, string]): RoomState {
  const { relayed, unlinked, unrelayed, kept, upgrades, faults } = state;
  const key = edgeKey(...pair);
  const isSteady = (upgrades.get(key) ?? 0) < MAX_UPGRADES && !breaksOf(faults).has(key);
  if (!state.hasServerLinks || !isSteady || browserOf(state, pair[0]) === browserOf(state, pair[1])) return state;
  return {
    ...state,
    kept: updated(state, kept, [pair]),
    // A connection over the relay says nothing about a direct link of its ends.
    unlinked: includesPair(relayed, pair) ? unlinked : without(unlinked, [pair]),
    unrelayed: without(unrelayed, [pair]),
    direct: isServerOnly(state) ? updated(state, state.direct, [pair]) : [],
  };
}

/** Returns the neighbours that use the server now, and would not use it in another generation. */
export function upgradesOf({ served, kept }: RoomState): Pairs {
  return served.filter((pair) => includesPair(kept, pair));
}

/**
 * Records that links of these pairs broke or could not be opened. A pair that has linked directly
 * before stays in `direct`, because its ends are not in separate networks.
 */
export function withFailedPairs(state: RoomState, pairs: Pairs): RoomState {
  if (!isServerOnly(state)) return state;
  const foreign = pairs.filter(([a, b]) => browserOf(state, a) !== browserOf(state, b));
  return { ...state, unlinked: updated(state, state.unlinked, foreign) };
}

function without<Pair extends Pairs[number]>(pairs: readonly Pair[], dropped: Pairs): Pair[] {
  return pairs.filter((pair) => !includesPair(dropped, pair));
}

/**
 * Returns `pairs` with `added` as its latest ones. A pair is dropped when both of its members have
 * left: as long as one of them is present, the pair says something about the network of that
 * member. If there are too many pairs, the oldest are dropped.
 */
function updated({ hidden, members }: RoomState, pairs: Pairs, added: Pairs): Pairs {
  return [...without(pairs, added), ...added]
    .filter((pair) => pair.some((member) => hidden.has(member)))
    .slice(-PAIRS_PER_MEMBER * members.length);
}
