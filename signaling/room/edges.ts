/**
 * Links that break, or are slow. Only the server sees both ends, so it judges: a link's first break
 * is bad luck, and it is made anew; at the second the two are no longer neighbours, or connect over
 * a relay; where that cannot be, one of them has to go. Two with a slow link are no longer
 * neighbours where that can be.
 */
import type { RosterEntry } from '../../src/protocol/room.ts';

export type Breaks = ReadonlyMap<string, number>;

/** The pair's key, whichever end speaks. */
export function edgeKey(a: string, b: string): string {
  return a < b ? `${a} ${b}` : `${b} ${a}`;
}

/** One break more of each pair. */
export function addBreaks(breaks: Breaks, pairs: readonly (readonly [string, string])[]): Breaks {
  const next = new Map(breaks);
  for (const [a, b] of pairs) next.set(edgeKey(a, b), (next.get(edgeKey(a, b)) ?? 0) + 1);
  return next;
}

/** Breaks of a link from which on the two should not be neighbours. */
export const TO_PART = 2;
/** Breaks of a link from which on one end has to go. */
const TO_LEAVE = 3;

export interface Order {
  /** Neighbours first to last, and the last with the first. */
  ring: RosterEntry[];
  /** Neighbours that must connect over a relay. */
  relayed: [string, string][];
  /** Who has to go, as there is no such order: the ring is without it. */
  culprits: RosterEntry[];
}

export type Pairs = readonly (readonly [string, string])[];

/**
 * An order of `members`, as near to theirs as can be, in which no two are neighbours whose link has
 * broken twice; where there is none, those pairs go over a relay, if there is one and it has not
 * failed too; else who has most bad links goes, of two alike the one that comes later in `members`.
 * Pairs that are `parted` are neighbours only where it cannot be helped, those that are in it twice
 * least of all.
 */
export function orderAround(
  members: readonly RosterEntry[],
  breaks: Breaks,
  hasRelay: boolean,
  parted: Pairs = [],
): Order {
  const culprits: RosterEntry[] = [];
  const apart = addBreaks(new Map(), parted);
  const most = Math.max(0, ...apart.values());
  let rest = [...members];
  for (;;) {
    // All of them together are better than one link that breaks.
    const costOfBroken = rest.length * most + 1;
    const ring = spread(rest, (a, b) => {
      if (timesBroken(breaks, a, b) >= TO_PART) return costOfBroken;
      return timesBroken(apart, a, b);
    });
    const bad = neighbours(ring).filter(([a, b]) => timesBroken(breaks, a, b) >= TO_PART);
    const hopeless = bad.filter(([a, b]) => !hasRelay || timesBroken(breaks, a, b) >= TO_LEAVE);
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

/** Whether these two are one of `pairs`, whichever comes first. */
export function isPair(pairs: Pairs, a: RosterEntry, b: RosterEntry): boolean {
  return pairs.some((pair) => pair.includes(a.member) && pair.includes(b.member));
}

/**
 * Whether a member could not link to two others: it connects to everybody over the relay, as the
 * next link may well fail too.
 */
export function needsRelay(unlinked: Pairs, member: string): boolean {
  return unlinked.filter((pair) => pair.includes(member)).length > 1;
}

/** Those of `pairs` that are in the ring, and not neighbours there. */
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

/** The pairs of a ring: none of one member, one of two. */
export function neighbours<T>(ring: readonly T[]): [T, T][] {
  if (ring.length < 2) return [];
  const pairs = ring.map((member, i): [T, T] => [member, ring[(i + 1) % ring.length]!]);
  return ring.length === 2 ? pairs.slice(0, 1) : pairs;
}

type Cost = (a: RosterEntry, b: RosterEntry) => number;

/** Swaps members until no swap lessens what neighbours cost. */
function spread(members: readonly RosterEntry[], costOf: Cost): RosterEntry[] {
  const n = members.length;
  const costs = members.map((a) => members.map((b) => costOf(a, b)));
  const ring = members.map((_, i) => i);
  /** Only the pairs that a swap of two places changes. */
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
