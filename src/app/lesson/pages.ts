/** The pages of the lesson. Each page highlights the part of the screen that its text explains. */

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

export type LessonPart = NonNullable<(typeof LESSON_PAGES)[number]['lights']>;

const ALWAYS: readonly LessonPart[] = ['own', 'sums', 'grid', 'steps', 'ring'];

export function isShown(part: LessonPart, page: number): boolean {
  const shows: readonly LessonPart[] = LESSON_PAGES[page]!.shows;
  return ALWAYS.includes(part) || shows.includes(part);
}

/** Returns the nearest valid index of a page. */
export function pageWithin(page: number): number {
  return Number.isInteger(page) ? Math.min(LESSON_PAGES.length - 1, Math.max(0, page)) : 0;
}
