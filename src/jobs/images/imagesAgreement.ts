/**
 * Facts of labelled images: their classes and the scale of their numbers. They are computed for the
 * files of one tab and merged over all tabs. Other tabs receive only these facts.
 */
import type { ImagesFacts } from '../../spec/dataFacts.ts';
import { DataError } from '../../util/errors.ts';
import { checkNoConfusableClasses, confusableNameOf } from '../../formats/classNames.ts';
import { mergeMoments } from '../../formats/moments.ts';

const MAX_CLASSES = 1000;

/** Returns the distinct names of classes, sorted. */
export function sortClassNames(names: Iterable<string>, isNumbered: boolean): string[] {
  const all = [...new Set(names)];
  return isNumbered ? all.sort((a, b) => Number(a) - Number(b)) : all.sort();
}

/**
 * Checks the classes of images.
 *
 * @param name the file or folder, for errors.
 * @param isShard whether the images are the shard of one tab. If so, one class is enough.
 * @throws DataError if there are too few or too many classes.
 */
export function checkImageClasses(
  name: string,
  { isNumbered, classes }: Pick<ImagesFacts, 'isNumbered' | 'classes'>,
  isShard = false,
): void {
  const { length } = classes;
  if (length >= (isShard ? 1 : 2) && length <= MAX_CLASSES)
    return isNumbered ? undefined : checkNoConfusableClasses(name, classes);
  if (isNumbered) {
    throw new DataError(
      `${name}: the number of different labels is ${length}, but it must be 2 to ${MAX_CLASSES}. Correct the labels.`,
    );
  }
  throw new DataError(
    `${name} has ${length === 1 ? `one folder of pictures, ${JSON.stringify(classes[0])}` : `${length} folders of pictures`}. ` +
      `Each folder is a class, and 2 to ${MAX_CLASSES} classes are needed. Add or merge folders.`,
  );
}

/** Returns a key. The facts of images with equal keys can be merged. */
export function keyOfImagesFacts({ shape, isNumbered, moments }: ImagesFacts): string {
  return JSON.stringify([shape, isNumbered, moments?.length ?? null]);
}

/**
 * Merges facts with the same {@link keyOfImagesFacts}. The result does not depend on their order.
 * If no tab has training samples of a class, the run does not have this class. Then {@link
 * whyImagesDifferFromFacts} rejects tabs with held-out samples of this class.
 */
export function mergeImagesFacts(parts: readonly ImagesFacts[]): ImagesFacts {
  const { shape, isNumbered } = parts[0]!;
  return {
    kind: 'images',
    shape,
    isNumbered,
    classes: sortClassNames(
      parts.flatMap(({ classes, untrained }) => classes.filter((one) => !untrained.includes(one))),
      isNumbered,
    ),
    untrained: [],
    moments: parts[0]!.moments?.map((_, k) => mergeMoments(parts.map(({ moments }) => moments![k]!))) ?? null,
  };
}

/**
 * Returns the reason why images do not match the facts that ranks agreed on, or `null` if they
 * match.
 */
export function whyImagesDifferFromFacts(agreed: ImagesFacts, own: ImagesFacts): string | null {
  if (keyOfImagesFacts(agreed) !== keyOfImagesFacts(own))
    return `its samples are ${describe(own)}, but those of the other ranks are ${describe(agreed)}`;
  const stranger = own.classes.find((one) => !agreed.classes.includes(one));
  if (stranger === undefined) return null;
  const what = own.untrained.includes(stranger)
    ? 'it has held-out samples of the class'
    : 'it has samples of the class';
  const twin = confusableNameOf(stranger, agreed.classes);
  return `${what} ${JSON.stringify(stranger)}, but the run ${twin === null ? 'does not have this class' : `has the class ${JSON.stringify(twin)}`}`;
}

function describe({ shape, isNumbered, moments }: ImagesFacts): string {
  const type = moments === null ? 'bytes' : 'numbers';
  return `${shape.join(' x ')} ${type} with ${isNumbered ? 'numbers' : 'folders'} as classes`;
}
