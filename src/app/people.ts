/**
 * The members that the page shows, by rank. Other parts of the page know only ranks; they look up
 * names and marks here.
 */
import { signal } from '@preact/signals';
import type { RosterEntry } from '../protocol/room.ts';

type Person = Pick<RosterEntry, 'name' | 'mark'>;

/** The members of the run, or of the room before a run; `null` for a free place. */
export const membersByRank = signal<readonly (Person | null)[]>([]);

/** Returns the number of the mark of a rank. Ranks without a member have their own number. */
export function markNumberOfRank(rank: number): number {
  return membersByRank.value[rank]?.mark ?? rank;
}

/** Returns the name of the member with this rank; empty if it is unknown. */
export function nameOfRank(rank: number): string {
  return membersByRank.value[rank]?.name ?? '';
}
