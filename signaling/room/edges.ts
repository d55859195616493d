/**
 * Finds ring orders that avoid broken and slow links. The server decides this because only it knows
 * both ends of a link. After its first break a link is opened again. After the second break the two
 * ranks are no longer neighbours, or they connect over a relay. If both are impossible, one of the
 * two is suspended. The two ends of a slow link are separated, too, if a suitable order exists.
 */
import type { RosterEntry } from '../../src/protocol/room.ts';

export type Breaks = ReadonlyMap<string, number>;

/** Returns the key of a pair of members. The key is the same for both orders of the two members. */
export function edgeKey(a: string, b: string): string {
  return a < b ? `${a} ${b}` : `${b} ${a}`;
}

/** Returns `breaks` with one more break for each pair. */
export function addBreaks(breaks: Breaks, pairs: readonly (readonly [string, string])[]): Breaks {
  const next = new Map(breaks);
  for (const [a, b] of pairs) next.set(edgeKey(a, b), (next.get(edgeKey(a, b)) ?? 0) + 1);
  return next;
}

/** Number of breaks of a link after which its ends should not be neighbours. */
export const BREAKS_TO_SEPARATE = 2;
/**
 * Number of breaks of a link after which a relay is no longer expected to help. If the two ends
 * cannot be separated, one of them is suspended.
 */
const BREAKS_TO_SUSPEND = 3;

export interface Order {
  /** The ring: consecutive members are neighbours, and so are the last and the first. */
  ring: RosterEntry[];
  /** Neighbours that must connect over a relay. */
  relayed: [string, string][];
  /** Members to suspend because no valid order includes them. They are not in the ring. */
  culprits: RosterEntry[];
}

export type Pairs = readonly (readonly [string, string])[];

/**
 * Returns an order of `members`, close to their present order, in which no two neighbours have a
 * link that broke twice. If no such order is found, neighbours with such a link connect over a
 * relay. If there is no relay, or the pair failed over the relay as well, one of the two is left
 * out: the one with more bad links, or the later one if both have equally many.
 * @param separated pairs that are neighbours only if this is unavoidable. If not all can be
 * avoided, pairs that are listed twice are avoided first.
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

/** Whether `pairs` contains these two members, in either order. */
export function isPair(pairs: Pairs, a: RosterEntry, b: RosterEntry): boolean {
  return includesPair(pairs, [a.member, b.member]);
}

export function includesPair(pairs: Pairs, [a, b]: readonly [string, string]): boolean {
  return pairs.some((pair) => pair.includes(a) && pair.includes(b));
}

/**
 * Whether a member failed to link to two others. Such a member connects to all others over the
 * relay, because its next direct link would probably fail, too.
 */
export function needsRelay(unlinked: Pairs, member: string): boolean {
  return unlinked.filter((pair) => pair.includes(member)).length > 1;
}

/**
 * Returns those of `pairs` whose two members are both in the ring, but are not neighbours there.
 */
export function keptApart(ring: readonly RosterEntry[], pairs: Pairs): [string, string][] {
  const around = neighbours(ring);
  return pairs.flatMap(([a, b]): [string, string][] => {
    const isThere = [a, b].every((one) => ring.some(({ member }) => member === one));
    const isSeparated = around.every(([left, right]) => !isPair([[a, b]], left, right));
    return isThere && isSeparated ? [[a, b]] : [];
  });
}

function badLinks(member: RosterEntry, others: readonly RosterEntry[], breaks: Breaks): number {
  return others.filter((other) => timesBroken(breaks, member, other) > 0).length;
}

/**
 * Returns the pairs of neighbours in a ring. A ring of one member has no pair, and a ring of two
 * has one pair.
 */
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
  /**
   * Returns the total cost of those pairs of neighbours that change if two positions are swapped.
   */
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
