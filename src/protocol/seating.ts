/**
 * Who has which rank: the order of a generation's ring, and which tab of its browser a rank is.
 * Pure; server and page agree by it.
 */
import type { RosterEntry } from './room.ts';

/**
 * A place for everybody: who asked for a rank has it, the others fill the gaps in the order given.
 * An index is a rank; `null` is a place that nobody has. As long as `members`, or longer: where
 * somebody's rank is beyond them, or `worldSize` says so.
 *
 * Ranks asked for differ: the room sees to it.
 */
export function seats<Member extends Pick<RosterEntry, 'rank'>>(
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
 * A rank's place among the ranks of its browser, as torchrun's LOCAL_RANK and LOCAL_WORLD_SIZE
 * among those of a machine.
 */
export interface LocalRank {
  /** 0 .. localWorldSize-1, in the order of ranks. */
  localRank: number;
  /** Ranks that are tabs of one browser (one profile of it). */
  localWorldSize: number;
}

/** `members` in ring order. */
export function localRankOf(rank: number, members: readonly Pick<RosterEntry, 'browser'>[]): LocalRank {
  const isNear = ({ browser }: Pick<RosterEntry, 'browser'>): boolean => browser === members[rank]!.browser;
  return { localRank: members.slice(0, rank).filter(isNear).length, localWorldSize: members.filter(isNear).length };
}
