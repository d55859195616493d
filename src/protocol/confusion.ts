/** Which class is taken for which: counts over held-out samples, the same on all ranks. */
import * as v from 'valibot';

/**
 * With more classes nobody reads the table any more, and those who watch are told little at once.
 */
export const MAX_CONFUSED_CLASSES = 32;
/** Characters of a class's name: a folder's, or a value's in a table, may be a sentence. */
export const MAX_CLASS_NAME = 64;

/** One of each class. */
const ofClasses = <const Schema extends v.GenericSchema>(schema: Schema) =>
  v.pipe(v.array(schema), v.minLength(1), v.maxLength(MAX_CONFUSED_CLASSES));

export const Confusion = v.object({
  /** Their names, in the order of their numbers. */
  classes: ofClasses(v.pipe(v.string(), v.maxLength(MAX_CLASS_NAME))),
  /**
   * counts[i][k]: samples of class i that were answered with class k. One whose outputs are NaN is
   * in none.
   */
  counts: ofClasses(ofClasses(v.pipe(v.number(), v.integer(), v.minValue(0)))),
});
export type Confusion = v.InferOutput<typeof Confusion>;

/**
 * What `count` classes are called in a table of them: by their names, long ones cut, else by their
 * numbers; `undefined` where there are too many for one.
 */
export function confusedClasses(count: number, names?: readonly string[]): string[] | undefined {
  if (count > MAX_CONFUSED_CLASSES) return undefined;
  return Array.from({ length: count }, (_, i) => {
    const name = names?.[i] ?? String(i);
    return name.length <= MAX_CLASS_NAME ? name : `${name.slice(0, MAX_CLASS_NAME - 1)}…`;
  });
}
