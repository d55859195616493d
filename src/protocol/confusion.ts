/** Which class is taken for which: counts over held-out samples, the same on all ranks. */

/** With more classes nobody reads the table any more, and those who watch are told little at once. */
export const MAX_CONFUSED_CLASSES = 32;
/** Characters of a class's name: a folder's, or a value's in a table, may be a sentence. */
export const MAX_CLASS_NAME = 64;

export interface Confusion {
  /** Their names, in the order of their numbers. */
  classes: string[];
  /** counts[i][k]: samples of class i that were answered with class k. One whose outputs are no numbers is in none. */
  counts: number[][];
}

/**
 * What `count` classes are called in a table of them: by their names, long ones cut, else by their numbers; `undefined` where there are
 * too many for one.
 */
export function confusedClasses(count: number, names?: readonly string[]): string[] | undefined {
  if (count > MAX_CONFUSED_CLASSES) return undefined;
  return Array.from({ length: count }, (_, i) => {
    const name = names?.[i] ?? String(i);
    return name.length <= MAX_CLASS_NAME ? name : `${name.slice(0, MAX_CLASS_NAME - 1)}…`;
  });
}
