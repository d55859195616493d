/** The confusion matrix of all held-out samples. All ranks have the same matrix. */
import * as v from 'valibot';

/**
 * The largest number of classes. A larger table is not readable and does not fit in an update for
 * spectators.
 */
export const MAX_CONFUSED_CLASSES = 32;
/**
 * The longest class name, in characters. It is limited because folder names and table values may be
 * whole sentences.
 */
export const MAX_CLASS_NAME_LENGTH = 64;

/** Returns a schema for a list with one element per class. */
const ofClasses = <const Schema extends v.GenericSchema>(schema: Schema) =>
  v.pipe(v.array(schema), v.minLength(1), v.maxLength(MAX_CONFUSED_CLASSES));

export const ConfusionMatrix = v.object({
  /** Names of the classes, in label order. */
  classes: ofClasses(v.pipe(v.string(), v.maxLength(MAX_CLASS_NAME_LENGTH))),
  /**
   * counts[i][k] is the number of samples of class i that were predicted as class k. Samples whose
   * outputs are NaN are not included.
   */
  counts: ofClasses(ofClasses(v.pipe(v.number(), v.integer(), v.minValue(0)))),
});
export type ConfusionMatrix = v.InferOutput<typeof ConfusionMatrix>;

/**
 * Returns the names of `count` classes for the table: the given names, shortened if necessary, or
 * numbers. Returns `undefined` if there are too many classes.
 */
export function confusionClassNames(count: number, names?: readonly string[]): string[] | undefined {
  if (count > MAX_CONFUSED_CLASSES) return undefined;
  return Array.from({ length: count }, (_, i) => {
    const name = names?.[i] ?? String(i);
    return name.length <= MAX_CLASS_NAME_LENGTH ? name : `${name.slice(0, MAX_CLASS_NAME_LENGTH - 1)}…`;
  });
}
