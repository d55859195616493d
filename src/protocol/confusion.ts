/** The confusion matrix: counts over held-out samples, the same on all ranks. */
import * as v from 'valibot';

/** Most classes: larger tables are not readable and do not fit the updates for spectators. */
export const MAX_CONFUSED_CLASSES = 32;
/** Longest class name, characters: folder names and table values may be whole sentences. */
export const MAX_CLASS_NAME = 64;

/** A list with one element per class. */
const ofClasses = <const Schema extends v.GenericSchema>(schema: Schema) =>
  v.pipe(v.array(schema), v.minLength(1), v.maxLength(MAX_CONFUSED_CLASSES));

export const Confusion = v.object({
  /** Names of the classes, in label order. */
  classes: ofClasses(v.pipe(v.string(), v.maxLength(MAX_CLASS_NAME))),
  /**
   * counts[i][k]: samples of class i that were predicted as class k. Samples whose outputs are NaN
   * are not counted.
   */
  counts: ofClasses(ofClasses(v.pipe(v.number(), v.integer(), v.minValue(0)))),
});
export type Confusion = v.InferOutput<typeof Confusion>;

/**
 * Names of `count` classes for the table: given names (long ones cut), or numbers; `undefined` if
 * there are too many classes.
 */
export function confusedClasses(count: number, names?: readonly string[]): string[] | undefined {
  if (count > MAX_CONFUSED_CLASSES) return undefined;
  return Array.from({ length: count }, (_, i) => {
    const name = names?.[i] ?? String(i);
    return name.length <= MAX_CLASS_NAME ? name : `${name.slice(0, MAX_CLASS_NAME - 1)}…`;
  });
}
