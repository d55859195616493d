/**
 * Assigns ranks: the order of a generation's ring, and the index of a rank among the tabs of its
 * browser. The functions are pure; server and page use them.
 */
import type { RosterEntry } from './room.ts';

/**
 * Returns the member of each rank; `null` where a rank is not assigned. Members with a requested
 * rank are assigned first; the others fill the gaps in the given order. The result has an element
 * for every member, for every rank of a world of `worldSize`, and for the highest requested rank.
 * Requested ranks must be distinct; the room ensures this.
 */
export function assignRanks<Member extends Pick<RosterEntry, 'rank'>>(
  members: readonly Member[],
  worldSize = 0,
): (Member | null)[] {
  const last = Math.max(-1, ...members.map(({ rank }) => rank ?? -1));
  const places = Array<Member | null>(Math.max(members.length, worldSize, last + 1)).fill(null);
  for (const member of members) if (member.rank !== null) places[member.rank] = member;
  for (const member of members) if (member.rank === null) places[places.indexOf(null)] = member;
  return places;
}

/**
 * A rank's position among the ranks of its browser, like torchrun's LOCAL_RANK and LOCAL_WORLD_SIZE
 * for a machine.
 */
export interface LocalRank {
  /** Index of the rank, 0 .. localWorldSize-1, among the ranks of its browser. */
  localRank: number;
  /** Number of ranks in the same browser profile. */
  localWorldSize: number;
}

/**
 * Returns the local rank of `rank`.
 *
 * @param members in ring order.
 */
export function localRankOf(rank: number, members: readonly Pick<RosterEntry, 'browser'>[]): LocalRank {
  const isNear = ({ browser }: Pick<RosterEntry, 'browser'>): boolean => browser === members[rank]!.browser;
  return { localRank: members.slice(0, rank).filter(isNear).length, localWorldSize: members.filter(isNear).length };
}
