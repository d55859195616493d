/**
 * What is learned of labelled images beside their pixels: which classes there are, and how numbers
 * are scaled. Of one tab's files, or of several tabs' put together: then this is all that others
 * hear of them.
 */
import type { ImagesFacts } from '../../spec/dataFacts.ts';
import { DataError } from '../../util/errors.ts';
import { mergeMoments } from '../moments.ts';

const MAX_CLASSES = 1000;

/** `names` in the order of classes. */
export function inOrder(names: Iterable<string>, isNumbered: boolean): string[] {
  const all = [...new Set(names)];
  return isNumbered ? all.sort((a, b) => Number(a) - Number(b)) : all.sort();
}

/**
 * @param name of what they are in.
 * @param isShard they are one tab's of several: one class is enough of it.
 * @throws DataError where nothing can be learned.
 */
export function checkImages(
  name: string,
  { isNumbered, classes }: Pick<ImagesFacts, 'isNumbered' | 'classes'>,
  isShard = false,
): void {
  const { length } = classes;
  if (length >= (isShard ? 1 : 2) && length <= MAX_CLASSES) return;
  if (isNumbered) {
    throw new DataError(`${name}: there are ${length} different labels, and 2 to ${MAX_CLASSES} can be told apart.`);
  }
  throw new DataError(
    `${name} has ${length === 1 ? `one folder of pictures, ${JSON.stringify(classes[0])}` : `${length} folders of pictures`}: ` +
      `each folder is a class, of which 2 to ${MAX_CLASSES} can be told apart.`,
  );
}

/** What images must have in common to be put together. */
export function keyOfImages({ shape, isNumbered, moments }: ImagesFacts): string {
  return JSON.stringify([shape, isNumbered, moments?.length ?? null]);
}

/**
 * Joins images with the same {@link keyOfImages}; the result does not depend on their order. A
 * class without training samples in any tab is not a class of the run, and {@link imagesMisfit}
 * rejects the tab that has it.
 */
export function joinImages(parts: readonly ImagesFacts[]): ImagesFacts {
  const { shape, isNumbered } = parts[0]!;
  return {
    kind: 'images',
    shape,
    isNumbered,
    classes: inOrder(
      parts.flatMap(({ classes, untrained }) => classes.filter((one) => !untrained.includes(one))),
      isNumbered,
    ),
    untrained: [],
    moments: parts[0]!.moments?.map((_, k) => mergeMoments(parts.map(({ moments }) => moments![k]!))) ?? null,
  };
}

/** Why images cannot be learned from with what was agreed on; `null`: they can. */
export function imagesMisfit(agreed: ImagesFacts, own: ImagesFacts): string | null {
  if (keyOfImages(agreed) !== keyOfImages(own)) return `its samples are ${said(own)}, and the others' ${said(agreed)}`;
  const stranger = own.classes.find((one) => !agreed.classes.includes(one));
  if (stranger === undefined) return null;
  const what = own.untrained.includes(stranger) ? 'it tests on the class' : 'it has the class';
  return `${what} ${JSON.stringify(stranger)}, which the run does not know`;
}

function said({ shape, isNumbered, moments }: ImagesFacts): string {
  const type = moments === null ? 'bytes' : 'numbers';
  return `${shape.join(' x ')} ${type} with ${isNumbered ? 'numbers' : 'folders'} for classes`;
}
