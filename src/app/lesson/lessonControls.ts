/**
 * The state and the actions of the lesson's page. The page uses them in the same way for tabs of a
 * room and for simulated ranks.
 */
import type { LessonOrder, LessonState } from '../../protocol/lesson.ts';

export interface LessonControls {
  state: LessonState;
  /** This tab's rank; `null` if this tab only watches. */
  you: number | null;
  /** Whether all ranks are simulated in this tab. */
  isSolo: boolean;
  /** Whether the class follows when this tab turns the page. */
  leads: boolean;
  /** Whether this page may remove members of its room. */
  mayDrop: boolean;
  isMoving: boolean;
  /** The rank that this tab's rank waits for; `null` if it does not wait. */
  waitsFor: number | null;
  order: (order: LessonOrder) => void;
  /** Removes a simulated rank; `null` in a room. */
  drop: ((rank: number) => void) | null;
}

/**
 * Returns the rank whose times and neighbours the page shows. This is the tab's own rank; in a tab
 * that only watches, the leader's rank. If that rank is not in the round, it is the last rank of
 * the round.
 */
export function viewpointRank({ state, you }: LessonControls): number {
  return Math.min(you ?? state.leader, state.round.n - 1);
}
