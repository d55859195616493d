/**
 * What a page of the lesson shows and may do, whether its ranks are tabs of a room or only
 * imagined.
 */
import type { LessonOrder, LessonState } from '../../protocol/lesson.ts';

export interface LessonControls {
  state: LessonState;
  /** This tab's rank; `null`: it only watches. */
  you: number | null;
  /** All ranks are in this tab, and nothing is sent. */
  isSolo: boolean;
  /** Whether this page gives the orders. */
  leads: boolean;
  /** Whether this page may send members of its room away. */
  mayDrop: boolean;
  isMoving: boolean;
  /** The rank whose numbers this one waits for. */
  waitsFor: number | null;
  order: (order: LessonOrder) => void;
  /** Lets an imagined rank go; `null` in a room. */
  drop: ((rank: number) => void) | null;
}

/** The rank of the round by whose times and neighbours it is shown. */
export function viewpoint({ state, you }: LessonControls): number {
  return Math.min(you ?? state.leader, state.round.n - 1);
}
