/** State and actions of the lesson's page, the same for tabs of a room and for simulated ranks. */
import type { LessonOrder, LessonState } from '../../protocol/lesson.ts';

export interface LessonControls {
  state: LessonState;
  /** This tab's rank; `null`: it only watches. */
  you: number | null;
  /** All ranks are simulated in this tab. */
  isSolo: boolean;
  /** Whether this page leads. */
  leads: boolean;
  /** Whether this page may remove members of its room. */
  mayDrop: boolean;
  isMoving: boolean;
  /** The rank that this one waits for. */
  waitsFor: number | null;
  order: (order: LessonOrder) => void;
  /** Removes a simulated rank; `null` in a room. */
  drop: ((rank: number) => void) | null;
}

/** The rank whose times and neighbours are shown. */
export function viewpoint({ state, you }: LessonControls): number {
  return Math.min(you ?? state.leader, state.round.n - 1);
}
