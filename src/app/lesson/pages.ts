/** The pages of the lesson. Each page highlights the part of the screen that its text explains. */

import { clamp } from '../../util/clamp.ts';
import { isRoundDone } from '../../engine/lesson/lessonRound.ts';
import type { LessonRound } from '../../protocol/lesson.ts';

/**
 * The pages in order. Their texts are in `locales/`. `lights` is the highlighted part. `shows`
 * lists the visible parts, except those that every page shows (`ALWAYS`).
 */
export const LESSON_PAGES = [
  { name: 'numbers', lights: 'own', shows: [] },
  { name: 'goal', lights: 'sums', shows: [] },
  { name: 'chunks', lights: 'grid', shows: [] },
  { name: 'reduceScatter', lights: 'steps', shows: [] },
  { name: 'allGather', lights: 'ring', shows: [] },
  { name: 'bytes', lights: 'bytes', shows: ['bytes'] },
  { name: 'server', lights: 'modes', shows: ['modes', 'bytes'] },
  { name: 'compare', lights: 'compare', shows: ['modes', 'bytes', 'compare'] },
  { name: 'slow', lights: 'stall', shows: ['modes', 'stall'] },
  { name: 'drop', lights: 'drop', shows: ['modes', 'drop'] },
  { name: 'training', lights: null, shows: ['modes', 'bytes', 'compare', 'stall', 'drop'] },
] as const satisfies readonly { name: string; lights: string | null; shows: readonly string[] }[];

export type LessonPartId = NonNullable<(typeof LESSON_PAGES)[number]['lights']>;

const ALWAYS: readonly LessonPartId[] = ['own', 'sums', 'grid', 'steps', 'ring'];

export function isLessonPartShown(part: LessonPartId, page: number): boolean {
  const shows: readonly LessonPartId[] = LESSON_PAGES[page]!.shows;
  return ALWAYS.includes(part) || shows.includes(part);
}

/** Pages whose task is to take steps on the ring from the beginning of a round. */
const FROM_START: readonly string[] = ['reduceScatter', 'slow', 'drop'];

/**
 * Returns whether a page needs a new round, because the current round is over or is not on the
 * ring.
 */
export function pageNeedsNewRound(page: number, round: LessonRound): boolean {
  return FROM_START.includes(LESSON_PAGES[page]!.name) && round.n > 1 && (isRoundDone(round) || round.mode !== 'ring');
}

/** Returns the nearest valid index of a page. */
export function nearestLessonPage(page: number): number {
  return Number.isInteger(page) ? clamp(page, 0, LESSON_PAGES.length - 1) : 0;
}
