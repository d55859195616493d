/**
 * Ring orders that avoid broken and slow links. Only the server sees both ends of a link, so it
 * decides: after the first break the link is opened again; after the second the two ranks are no
 * longer neighbours, or connect over a relay; if that is impossible, one of them is suspended.
 * Ranks with a slow link between them are no longer neighbours if possible.
 */
import type { RosterEntry } from '../../src/protocol/room.ts';

export type Breaks = ReadonlyMap<string, number>;

/** Key of a pair, in any order of the two. */
export function edgeKey(a: string, b: string): string {
  return a < b ? `${a} ${b}` : `${b} ${a}`;
}

/** Counts one more break of each pair. */
export function addBreaks(breaks: Breaks, pairs: readonly (readonly [string, string])[]): Breaks {
  const next = new Map(breaks);
  for (const [a, b] of pairs) next.set(edgeKey(a, b), (next.get(edgeKey(a, b)) ?? 0) + 1);
  return next;
}

/** Breaks of a link after which its ends should not be neighbours. */
export const BREAKS_TO_SEPARATE = 2;
/** Breaks of a link after which one end is suspended. */
const BREAKS_TO_SUSPEND = 3;

export interface Order {
  /** Consecutive members are neighbours, and so are the last and the first. */
  ring: RosterEntry[];
  /** Neighbours that must connect over a relay. */
  relayed: [string, string][];
  /** Members to suspend because no valid order includes them: the ring leaves them out. */
  culprits: RosterEntry[];
}

export type Pairs = readonly (readonly [string, string])[];

/**
 * Returns an order of `members`, close to theirs, in which no two neighbours have a link that
 * broke twice. If no such order exists, such pairs connect over a relay, unless it has failed too.
 * Without a relay the member with most bad links is left out; of two equal ones the later.
 * `separated` pairs are neighbours only if unavoidable, pairs listed twice least of all.
 */
export function orderAround(
  members: readonly RosterEntry[],
  breaks: Breaks,
  hasRelay: boolean,
  separated: Pairs = [],
): Order {
  const culprits: RosterEntry[] = [];
  const apart = addBreaks(new Map(), separated);
  const most = Math.max(0, ...apart.values());
  let rest = [...members];
  for (;;) {
    // One broken link costs more than all separated pairs together.
    const costOfBroken = rest.length * most + 1;
    const ring = arrange(rest, (a, b) => {
      if (timesBroken(breaks, a, b) >= BREAKS_TO_SEPARATE) return costOfBroken;
      return timesBroken(apart, a, b);
    });
    const bad = neighbours(ring).filter(([a, b]) => timesBroken(breaks, a, b) >= BREAKS_TO_SEPARATE);
    const hopeless = bad.filter(([a, b]) => !hasRelay || timesBroken(breaks, a, b) >= BREAKS_TO_SUSPEND);
    if (hopeless.length === 0) return { ring, relayed: bad.map(([a, b]) => [a.member, b.member]), culprits };
    const suspects = rest.filter((m) => hopeless.some((pair) => pair.includes(m)));
    const culprit = suspects.reduce((worst, m) =>
      badLinks(m, rest, breaks) >= badLinks(worst, rest, breaks) ? m : worst,
    );
    culprits.push(culprit);
    rest = rest.filter((m) => m !== culprit);
  }
}

function timesBroken(breaks: Breaks, a: RosterEntry, b: RosterEntry): number {
  return breaks.get(edgeKey(a.member, b.member)) ?? 0;
}

/** Whether these two are one of `pairs`, in any order. */
export function isPair(pairs: Pairs, a: RosterEntry, b: RosterEntry): boolean {
  return includesPair(pairs, [a.member, b.member]);
}

export function includesPair(pairs: Pairs, [a, b]: readonly [string, string]): boolean {
  return pairs.some((pair) => pair.includes(a) && pair.includes(b));
}

/**
 * Whether a member failed to link to two others: it connects to all members over the relay, as the
 * next link would probably fail too.
 */
export function needsRelay(unlinked: Pairs, member: string): boolean {
  return unlinked.filter((pair) => pair.includes(member)).length > 1;
}

/** The pairs of `pairs` whose members are in the ring and not neighbours there. */
export function keptApart(ring: readonly RosterEntry[], pairs: Pairs): [string, string][] {
  const around = neighbours(ring);
  return pairs.flatMap(([a, b]): [string, string][] => {
    const isThere = [a, b].every((one) => ring.some(({ member }) => member === one));
    const isParted = around.every(([left, right]) => !isPair([[a, b]], left, right));
    return isThere && isParted ? [[a, b]] : [];
  });
}

function badLinks(member: RosterEntry, others: readonly RosterEntry[], breaks: Breaks): number {
  return others.filter((other) => timesBroken(breaks, member, other) > 0).length;
}

/** Neighbouring pairs of a ring: no pair for one member, one pair for two. */
export function neighbours<T>(ring: readonly T[]): [T, T][] {
  if (ring.length < 2) return [];
  const pairs = ring.map((member, i): [T, T] => [member, ring[(i + 1) % ring.length]!]);
  return ring.length === 2 ? pairs.slice(0, 1) : pairs;
}

type Cost = (a: RosterEntry, b: RosterEntry) => number;

/** Swaps members until no swap lowers the cost of neighbours. */
function arrange(members: readonly RosterEntry[], costOf: Cost): RosterEntry[] {
  const n = members.length;
  const costs = members.map((a) => members.map((b) => costOf(a, b)));
  const ring = members.map((_, i) => i);
  /** Cost of the pairs that a swap of two positions changes. */
  const around = (i: number, j: number): number => {
    let sum = 0;
    for (const place of new Set([i, j, (i + n - 1) % n, (j + n - 1) % n])) {
      sum += costs[ring[place]!]![ring[(place + 1) % n]!]!;
    }
    return sum;
  };
  const swap = (i: number, j: number): void => {
    [ring[i], ring[j]] = [ring[j]!, ring[i]!];
  };
  for (let improved = true; improved;) {
    improved = false;
    for (let i = 0; i < n && !improved; i++) {
      for (let j = i + 1; j < n && !improved; j++) {
        const before = around(i, j);
        if (before === 0) continue;
        swap(i, j);
        improved = around(i, j) < before;
        if (!improved) swap(i, j);
      }
    }
  }
  return ring.map((i) => members[i]!);
}
