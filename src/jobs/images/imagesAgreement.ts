/**
 * Facts of labelled images: classes, and the scale of numbers. Computed for one tab's files, and
 * merged over all tabs; other tabs receive nothing else of them.
 */
import type { ImagesFacts } from '../../spec/dataFacts.ts';
import { DataError } from '../../util/errors.ts';
import { mergeMoments } from '../moments.ts';

const MAX_CLASSES = 1000;

/** Sorted distinct names of classes. */
export function inOrder(names: Iterable<string>, isNumbered: boolean): string[] {
  const all = [...new Set(names)];
  return isNumbered ? all.sort((a, b) => Number(a) - Number(b)) : all.sort();
}

/**
 * @param name the file or folder, for errors.
 * @param isShard the images are one tab's shard: one class is enough.
 * @throws DataError if nothing can be learned from them.
 */
export function checkImages(
  name: string,
  { isNumbered, classes }: Pick<ImagesFacts, 'isNumbered' | 'classes'>,
  isShard = false,
): void {
  const { length } = classes;
  if (length >= (isShard ? 1 : 2) && length <= MAX_CLASSES) return;
  if (isNumbered) {
    throw new DataError(
      `${name}: there are ${length} different labels, but 2 to ${MAX_CLASSES} are needed. Correct the labels.`,
    );
  }
  throw new DataError(
    `${name} has ${length === 1 ? `one folder of pictures, ${JSON.stringify(classes[0])}` : `${length} folders of pictures`}: ` +
      `each folder is a class, and 2 to ${MAX_CLASSES} classes are needed. Add or merge folders.`,
  );
}

/** Images can be merged if their keys are equal. */
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

/** The reason why images do not match the facts that were agreed on; `null` if they match. */
export function imagesMisfit(agreed: ImagesFacts, own: ImagesFacts): string | null {
  if (keyOfImages(agreed) !== keyOfImages(own))
    return `its samples are ${describe(own)}, but the others' are ${describe(agreed)}`;
  const stranger = own.classes.find((one) => !agreed.classes.includes(one));
  if (stranger === undefined) return null;
  const what = own.untrained.includes(stranger) ? 'it tests on the class' : 'it has the class';
  return `${what} ${JSON.stringify(stranger)}, which the run does not know`;
}

function describe({ shape, isNumbered, moments }: ImagesFacts): string {
  const type = moments === null ? 'bytes' : 'numbers';
  return `${shape.join(' x ')} ${type} with ${isNumbered ? 'numbers' : 'folders'} for classes`;
}
