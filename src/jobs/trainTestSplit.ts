/** Splits samples into training and held-out samples, for files that do not define a split. */
import type { DataNote } from '../spec/preview.ts';
import { DataError } from '../util/errors.ts';
import { mixSeed, seededPermutation } from '../util/rng.ts';

/**
 * This number is mixed into the seed, so that the split does not use the same random numbers as
 * other parts of the job.
 */
const SPLIT_WORD = 0x5e1d;
/** One in this number of samples is held out. */
const FOLD = 5;

/**
 * Returns notes about the classes that have no held-out samples.
 *
 * @param isHeldOut returns whether a class has held-out samples (default: if it has at least two
 *   samples).
 */
export function notesOnUntestedClasses(
  classes: Iterable<readonly [name: string, samples: number]>,
  isHeldOut = (_: string, samples: number): boolean => samples > 1,
): DataNote[] {
  return [...classes].flatMap(([name, count]) =>
    isHeldOut(name, count) ? [] : [{ kind: 'class-not-held-out', count, name, example: '' } as const],
  );
}

/** @throws DataError if no class has two samples: then none can be both trained and tested. */
export function checkClassesCanSplit(of: string, counts: readonly number[]): void {
  if (counts.some((count) => count > 1)) return;
  throw new DataError(
    `${of}: each of the ${counts.length} classes has a single sample, so no class can be in both training and evaluation. Add samples.`,
  );
}

export interface TrainTestSplit {
  train: Uint32Array;
  test: Uint32Array;
}

/**
 * Splits the samples 0 .. n-1 by a seeded permutation. About a fifth of each class is held out. A
 * class with at least two samples is in both parts. If a class has a single sample, this sample is
 * for training. If all classes have a single sample, one of these samples is held out. Both parts
 * are sorted. All ranks compute the same split.
 *
 * @param labels the class of each sample; equal values if the samples have no classes.
 */
export function trainTestSplit(labels: ArrayLike<number>, seed: number): TrainTestSplit {
  const count = labels.length;
  const order = seededPermutation(count, mixSeed(seed, SPLIT_WORD));
  // Classes are numbered in the order in which the permutation reaches them.
  const numbers = new Map<number, number>();
  const sizes: number[] = [];
  const classOf = new Uint32Array(count);
  for (let k = 0; k < count; k++) {
    const label = labels[order[k]!]!;
    let number = numbers.get(label);
    if (number === undefined) {
      number = sizes.push(0) - 1;
      numbers.set(label, number);
    }
    classOf[k] = number;
    sizes[number]!++;
  }
  // Fifths are counted over all classes together. If they were counted for each class, many small
  // classes would be rounded down.
  let end = 0;
  let held = 0;
  /** For each class, the number of samples for training that have not been reached yet. */
  const left = sizes.map((size) => {
    const start = end;
    if (size > 1) end += size;
    const heldOut = size > 1 ? Math.max(1, Math.floor(end / FOLD) - Math.floor(start / FOLD)) : 0;
    held += heldOut;
    return size - heldOut;
  });
  const isTest = new Uint8Array(count);
  for (let k = 0; k < count; k++) {
    const number = classOf[k]!;
    if (left[number] === 0) isTest[order[k]!] = 1;
    else left[number]!--;
  }
  if (held === 0 && count > 0) isTest[order[count - 1]!] = 1;
  const test = new Uint32Array(Math.min(count, Math.max(1, held)));
  const train = new Uint32Array(count - test.length);
  let tested = 0;
  for (let i = 0; i < count; i++) {
    if (isTest[i] === 1) test[tested++] = i;
    else train[i - tested] = i;
  }
  return { train, test };
}
