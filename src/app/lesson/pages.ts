/** The lesson's pages: one thought each, the part of the screen that it is about, and what is on the screen from then on. */

/** In their order; the words of each are in `words/`. */
export const LESSON_PAGES = [
  { name: 'numbers', lights: 'own' },
  { name: 'goal', lights: 'sums' },
  { name: 'chunks', lights: 'grid' },
  { name: 'adding', lights: 'steps' },
  { name: 'handing', lights: 'ring' },
  { name: 'bytes', lights: 'bytes' },
  { name: 'server', lights: 'modes' },
  { name: 'compare', lights: 'compare' },
  { name: 'slow', lights: 'stall' },
  { name: 'drop', lights: 'drop' },
  { name: 'training', lights: null },
] as const satisfies readonly { name: string; lights: string | null }[];

export type LessonPageName = (typeof LESSON_PAGES)[number]['name'];
export type LessonPart = NonNullable<(typeof LESSON_PAGES)[number]['lights']>;

/** Parts that are there only from the page on that speaks of them: before, they would be riddles. */
const LATER: readonly LessonPart[] = ['bytes', 'modes', 'compare', 'stall', 'drop'];

export function isShown(part: LessonPart, page: number): boolean {
  return !LATER.includes(part) || page >= LESSON_PAGES.findIndex(({ lights }) => lights === part);
}

/** A page's index, whatever an address or a message says. */
export function pageWithin(page: number): number {
  return Number.isInteger(page) ? Math.min(LESSON_PAGES.length - 1, Math.max(0, page)) : 0;
}
